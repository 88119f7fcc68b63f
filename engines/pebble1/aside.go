package pebble1

import (
	"errors"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio/pebble1fs"
)

// aside is a second view of the same files.
type aside struct{ *pebble.DB }

const asideCacheBytes = 32 << 20

// OpenAside opens dir once more, for reading only. The lock is ours already.
func (source) OpenAside(dir string) (pebbledb.Aside, error) {
	options := &pebble.Options{
		ReadOnly: true,
		FS:       pebble1fs.ReadOnly(vfs.Default, true),
		Logger:   pebbledb.Logger{Adapter: "pebble1"},
		Cache:    pebble.NewCache(asideCacheBytes),
	}
	defer options.Cache.Unref()
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	return aside{db}, nil
}

func (a aside) Has(key []byte) (bool, error) {
	_, closer, err := a.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}
