package pebble1_test

import (
	"fmt"
	"os"

	"github.com/cockroachdb/pebble"

	"github.com/statelab/statelab/blockreads/pebble1"
)

func ExampleAttach() {
	dir, err := os.MkdirTemp("", "blockreads")
	if err != nil {
		panic(err)
	}

	defer os.RemoveAll(dir)
	if err := fill(dir); err != nil {
		panic(err)
	}

	options := &pebble.Options{ReadOnly: true, Logger: quiet{}}
	counter := pebble1.Attach(options) // when all other options are set
	db, err := pebble.Open(dir, options)
	if err != nil {
		panic(err)
	}

	defer db.Close()
	stop, err := counter.Follow(db) // for the levels
	if err != nil {
		panic(err)
	}

	defer stop() // before db.Close
	before := counter.Snapshot()
	for i := range 1000 {
		_, closer, err := db.Get(fmt.Appendf(nil, "key %06d", i*20))
		if err != nil {
			panic(err)
		}

		closer.Close()
	}

	fmt.Print(counter.Snapshot().Sub(before))
	// Output:
	// level  top_index  index  data  meta  reads    bytes
	//      L6          1      3   392     3    399  240,134
	//     all          1      3   392     3    399  240,134
	// tables opened: 1; background reads: 0
}

// fill makes a database of 20,000 keys, all of them on the last level.
func fill(dir string) error {
	db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
	if err != nil {
		return err
	}

	for i := range 20_000 {
		key := fmt.Appendf(nil, "key %06d", i)
		if err := db.Set(key, fmt.Appendf(nil, "value %060d", i), pebble.NoSync); err != nil {
			return err
		}
	}

	if err := db.Compact([]byte("key"), []byte("key z"), false); err != nil {
		return err
	}

	return db.Close()
}
