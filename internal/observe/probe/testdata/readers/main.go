// Command readers reads from each engine in Go that can be watched: what tests decode.
package main

import (
	"errors"
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

// iterator is that of both versions of Pebble.
type iterator interface {
	First() bool
	Last() bool
	SeekGE(key []byte) bool
	SeekPrefixGE(key []byte) bool
	SeekLT(key []byte) bool
}

// seek makes every kind of Seek.
func seek(i iterator) {
	key := []byte("a")
	fmt.Println(i.First(), i.Last(), i.SeekGE(key), i.SeekPrefixGE(key), i.SeekLT(key))
}

func readPebble(dir string) error {
	db, err := pebble.Open(dir, &pebble.Options{})
	if err != nil {
		return err
	}

	all, err := db.NewIter(nil)
	if err != nil {
		return err
	}

	seek(all)
	fmt.Println(all.Last(), all.First())
	_, closer, err := db.Get(all.Key())
	return errors.Join(err, closer.Close(), all.Close())
}

func readPebble2(dir string) error {
	db, err := pebble2.Open(dir, &pebble2.Options{})
	if err != nil {
		return err
	}

	all, err := db.NewIter(nil)
	if err != nil {
		return err
	}

	seek(all)
	fmt.Println(all.Last(), all.First())
	_, closer, err := db.Get(all.Key())
	return errors.Join(err, closer.Close(), all.Close())
}

func readLevel(dir string) error {
	db, err := leveldb.OpenFile(dir, nil)
	if err != nil {
		return err
	}

	all := db.NewIterator(nil, nil)
	fmt.Println(all.First(), all.Last(), all.Seek([]byte("a")))
	_, err = db.Get(all.Key(), nil)
	_, wrong := db.Has(all.Key(), nil)
	all.Release()
	return errors.Join(err, wrong, all.Error())
}
