package geth

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/ethereum/go-ethereum/ethdb/pebble"
)

// compactions is the line of Pebble's statistics that tells of background work.
var compactions = regexp.MustCompile(`Compactions: (\d+)  estimated debt: \S+  in progress: (\d+)`)

const (
	quietPoll = 20 * time.Millisecond
	quietTime = 200 * time.Millisecond
)

// awaitQuiet returns when Pebble has run no compaction for a while.
func awaitQuiet(ctx context.Context, db *pebble.Database) error {
	poll := time.NewTicker(quietPoll)
	defer poll.Stop()
	last, quietSince := "", time.Now()
	for {
		text, err := db.Stat()
		if err != nil {
			return err
		}
		found := compactions.FindStringSubmatch(text)
		if found == nil {
			return errors.New("the statistics of Pebble do not tell of compactions")
		}
		if found[1] != last || found[2] != "0" {
			last, quietSince = found[1], time.Now()
		}
		if time.Since(quietSince) >= quietTime {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}
