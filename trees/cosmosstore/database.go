package cosmosstore

import (
	"bytes"
	"errors"
	"fmt"

	"cosmossdk.io/log/v2"
	db "github.com/cosmos/cosmos-db"

	"github.com/statelab/statelab/internal/adapt/iavlforest"
)

type levelDB struct{ *db.GoLevelDB }

func (d levelDB) Scan(start, end []byte) (iavlforest.Iterator, error) { return d.Iterator(start, end) }

// counted counts what the multistore and its trees ask of the database.
type counted struct {
	db.DB
	counter *iavlforest.Counter
}

func (d counted) Get(key []byte) ([]byte, error) {
	d.counter.Get()
	return d.DB.Get(key)
}

func (d counted) Has(key []byte) (bool, error) {
	d.counter.Get()
	return d.DB.Has(key)
}

func (d counted) NewBatch() db.Batch { return d.counter.Batch(d.DB.NewBatch(), 0) }

func (d counted) NewBatchWithSize(n int) db.Batch {
	return d.counter.Batch(d.DB.NewBatchWithSize(n), 0)
}

const nodePrefix = 's' // below a store's prefix

// isNode tells nodes from the roots of versions that changed nothing, which are
// empty or the key of an earlier root, and from what is no tree's.
func isNode(key, value []byte) bool {
	inStore, is := bytes.CutPrefix(key, []byte("s/k:"))
	_, own, found := bytes.Cut(inStore, []byte("/"))
	return is && found && own[0] == nodePrefix && len(value) > 0 && value[0] != nodePrefix
}

// failures are the errors that the SDK logs instead of returning them.
type failures struct {
	say   func(string)
	first error
}

func (f *failures) any() error { return f.first }

func (f *failures) tell(level, message string, about []any) {
	text := fmt.Sprint(level, ": ", message, " ", about)
	if level == "error" && f.first == nil {
		f.first = errors.New(text)
	}
	if f.say != nil {
		f.say(text)
	}
}

// logger hears what the SDK logs, apart from debugging.
type logger struct {
	log.Logger
	failures *failures
}

func (l logger) Info(message string, about ...any)  { l.failures.tell("info", message, about) }
func (l logger) Warn(message string, about ...any)  { l.failures.tell("warning", message, about) }
func (l logger) Error(message string, about ...any) { l.failures.tell("error", message, about) }
