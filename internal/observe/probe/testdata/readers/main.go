// Command readers reads from each engine in Go that can be watched: what tests decode.
package main

import (
	"fmt"
	"os"

	"github.com/cockroachdb/pebble"
	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/syndtr/goleveldb/leveldb"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "readers: give the folders of three databases")
		os.Exit(2)
	}

	fmt.Println(readPebble(os.Args[1]), readPebble2(os.Args[2]), readLevel(os.Args[3]))
}

func readPebble(dir string) error {
	db, err := pebble.Open(dir, &pebble.Options{})
	if err != nil {
		return err
	}

	iterator, err := db.NewIter(nil)
	if err != nil {
		return err
	}

	for valid := iterator.First(); valid; valid = iterator.Next() {
		if _, closer, err := db.Get(iterator.Key()); err != nil || closer.Close() != nil {
			return err
		}
	}

	iterator.Last()
	iterator.SeekGE([]byte("a"))
	iterator.SeekPrefixGE([]byte("a"))
	iterator.SeekLT([]byte("a"))
	return iterator.Close()
}

func readPebble2(dir string) error {
	db, err := pebble2.Open(dir, &pebble2.Options{})
	if err != nil {
		return err
	}

	iterator, err := db.NewIter(nil)
	if err != nil {
		return err
	}

	for valid := iterator.First(); valid; valid = iterator.Next() {
		if _, closer, err := db.Get(iterator.Key()); err != nil || closer.Close() != nil {
			return err
		}
	}

	iterator.Last()
	iterator.SeekGE([]byte("a"))
	iterator.SeekPrefixGE([]byte("a"))
	iterator.SeekLT([]byte("a"))
	return iterator.Close()
}

func readLevel(dir string) error {
	db, err := leveldb.OpenFile(dir, nil)
	if err != nil {
		return err
	}

	iterator := db.NewIterator(nil, nil)
	for iterator.Next() {
		if _, err := db.Get(iterator.Key(), nil); err != nil {
			return err
		}
	}

	if _, err := db.Has([]byte("a"), nil); err != nil {
		return err
	}

	iterator.First()
	iterator.Last()
	iterator.Seek([]byte("a"))
	iterator.Release()
	return iterator.Error()
}
