// Package hashlog is an engine in a module of its own. The conformance suite of statelab tests it
// (go test), and this measures it beside Pebble:
//
//	go test -run '^$' -bench . -benchtime 1x -count 6 > results.txt
//	go run golang.org/x/perf/cmd/benchstat@latest -col /engine results.txt
package hashlog

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/simple"
)

// Engine keeps all values in one file, and in memory where each of them is: a Get reads once. A
// second file lists the places, a batch after the other.
var Engine = simple.New(engine.Info{
	Name: "hashlog", Version: "1", Licence: "Apache-2.0",
	Capabilities: []engine.Capability{engine.CanReadBlocks},
}, open)

type store struct {
	simple.Reads
	values, index  *os.File
	end, endOfList int64 // of whole batches, in the two files

	mutex  sync.RWMutex
	places map[string]place
}

type place struct {
	Key     []byte
	At      int64
	Bytes   int
	Deleted bool
}

func open(o engine.Options) (simple.Store, error) {
	values, err := simple.OpenFile(o, "values")
	if err != nil {
		return nil, err
	}

	index, err := simple.OpenFile(o, "index")
	if err != nil {
		return nil, errors.Join(err, values.Close())
	}

	s := &store{values: values, index: index, places: map[string]place{}}
	batches := json.NewDecoder(index)
	for {
		var batch []place
		if err := batches.Decode(&batch); err != nil { // the end, or where a kill cut a batch off
			return s, nil
		}
		s.apply(batch, batches.InputOffset())
	}
}

// Commit writes the values first: a batch is there when the list of its places is.
func (s *store) Commit(changes []simple.Change) error {
	var batch []place
	var values []byte
	for _, c := range changes {
		batch = append(batch, place{c.Key, s.end + int64(len(values)), len(c.Value), c.Deleted})
		values = append(values, c.Value...)
	}

	list, err := json.Marshal(batch)
	if err != nil {
		return err
	}

	if _, err := s.values.WriteAt(values, s.end); err != nil {
		return err
	}

	if _, err := s.index.WriteAt(list, s.endOfList); err != nil {
		return err
	}

	s.apply(batch, s.endOfList+int64(len(list)))
	return nil
}

func (s *store) apply(batch []place, endOfList int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, p := range batch {
		s.places[string(p.Key)] = p
		s.end = p.At + int64(p.Bytes)
	}
	s.endOfList = endOfList
}

func (s *store) Get(key, dst []byte) (value []byte, found bool, err error) {
	s.mutex.RLock()
	p, found := s.places[string(key)]
	s.mutex.RUnlock()
	if !found || p.Deleted {
		return dst, false, nil
	}

	value = slices.Grow(dst[:0], p.Bytes)[:p.Bytes]
	s.Add(p.Bytes)
	_, err = s.values.ReadAt(value, p.At)
	return value, err == nil, err
}

func (s *store) Sync() error { return errors.Join(s.values.Sync(), s.index.Sync()) }

func (s *store) Close() error { return errors.Join(s.values.Close(), s.index.Close()) }
