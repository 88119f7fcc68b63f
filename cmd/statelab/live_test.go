package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	pebble2 "github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/livedir/churn"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result"
)

// TestLiveDatabase looks at a database while its owner writes all keys anew and replaces tables,
// logs and options as fast as it can: what is said holds at some moment, or the writer is named.
func TestLiveDatabase(t *testing.T) {
	const keys, times = 400, 3
	for name, look := range map[string]func(db string) (outcome, error){
		"inspect": func(db string) (outcome, error) {
			var run result.Run
			o := statelab(t, "inspect", db, "--ignore-lock", "--json", "--quiet")
			if o.exit != exitDone {
				return o, nil
			}

			err := json.Unmarshal([]byte(o.stdout), &run)
			found := int64(0)
			for _, l := range run.Database.Levels {
				found += l.Keys
			}

			if err == nil && found < keys {
				err = fmt.Errorf("%d keys, %d are there", found, keys)
			}

			return o, err
		},
		"advise": func(db string) (outcome, error) {
			return statelab(t, "advise", db, "--ignore-lock", "--probe-seconds", "0",
				"--quiet"), nil
		},
		"sweep --dry-run": func(db string) (outcome, error) {
			o := statelab(t, "sweep", "--db", db, "--use-existing", "--ignore-lock", "--dry-run")
			if o.exit == exitDone && !strings.HasPrefix(o.stdout, "1 run, about ") {
				return o, fmt.Errorf("no estimate: %v", o)
			}
			return o, nil
		},
		"doctor": func(db string) (outcome, error) {
			return statelab(t, "doctor", "--db", db), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "inspect" {
				testring.Outer(t, "it starts processes beside a busy one")
			}

			db := filepath.Join(t.TempDir(), "D")
			owner, err := pebble2.Open(db, &pebble2.Options{Logger: silent{}})
			if err != nil {
				t.Fatal(err)
			}

			write := func(number int) error {
				b := owner.NewBatch()
				for i := range keys {
					if err := b.Set(fmt.Appendf(nil, "%032d", i), fmt.Appendf(nil, "%0110d",
						number), nil); err != nil {
						return err
					}
				}

				if err := b.Commit(pebble2.NoSync); err != nil {
					return err
				}

				if number%4 != 0 {
					return owner.Flush()
				}

				return owner.Compact(t.Context(), []byte("0"), []byte("1"), false)
			}

			if err := write(4); err != nil {
				t.Fatal(err)
			}

			churn.RunBeside(t, write, times, func() error {
				o, err := look(db)
				switch {
				case err != nil || o.exit == exitDone:
					return err
				case strings.Contains(o.stderr, "another process changed the files"):
					return engine.Fail(engine.CodeInUse, "%v", o)
				}
				return fmt.Errorf("%v", o)
			})

			if err := owner.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// silent takes what Pebble logs.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
