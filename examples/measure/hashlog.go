// Package hashlog is an engine in a module of its own. The conformance suite of statelab tests it
// (go test), and this measures it beside Pebble:
//
//	go test -run '^$' -bench . -benchtime 1x -count 6 > results.txt
//	go run golang.org/x/perf/cmd/benchstat@latest -col /engine results.txt
package hashlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/simple"
)

// Engine keeps batches in a log, each of them a list of keys and then their values, and in memory
// where each value is: a Get reads once.
var Engine = simple.New(engine.Info{
	Name: "hashlog", Version: "1", Licence: "Apache-2.0",
	Capabilities: []engine.Capability{engine.CanReadBlocks},
}, open)

type store struct {
	simple.Reads
	*os.File       // the log
	end      int64 // of its last whole batch
	mutex    sync.RWMutex
	values   map[string]value
}

type value struct {
	Key     []byte
	Bytes   int
	Deleted bool
	at      int64
}

func open(o engine.Options) (simple.Store, error) {
	log, err := simple.OpenFile(o, "log")
	if err != nil {
		return nil, err
	}

	s := &store{File: log, values: map[string]value{}}
	text, err := io.ReadAll(log)
	for err == nil && s.end < int64(len(text)) {
		var batch []value
		list := json.NewDecoder(bytes.NewReader(text[s.end:]))
		if list.Decode(&batch) != nil { // a kill has cut this batch off
			break
		}
		s.add(batch, list.InputOffset())
	}

	if err == nil && !o.ReadsOnly() {
		err = log.Truncate(s.end)
	}
	return s, err
}

func (s *store) Commit(changes []simple.Change) error {
	var batch []value
	var values []byte
	for _, c := range changes {
		batch = append(batch, value{Key: c.Key, Bytes: len(c.Value), Deleted: c.Deleted})
		values = append(values, c.Value...)
	}

	list, err := json.Marshal(batch)
	_, errOfValues := s.WriteAt(values, s.end+int64(len(list)))
	if err := errors.Join(err, errOfValues); err != nil {
		return err
	}

	if _, err := s.WriteAt(list, s.end); err != nil { // last: it makes the batch whole
		return err
	}

	s.add(batch, int64(len(list)))
	return nil
}

func (s *store) add(batch []value, listBytes int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end += listBytes
	for _, v := range batch {
		v.at = s.end
		s.values[string(v.Key)] = v
		s.end += int64(v.Bytes)
	}
}

func (s *store) Get(key, dst []byte) ([]byte, bool, error) {
	s.mutex.RLock()
	v, found := s.values[string(key)]
	s.mutex.RUnlock()
	if !found || v.Deleted {
		return dst, false, nil
	}

	s.Add(v.Bytes)
	dst = slices.Grow(dst[:0], v.Bytes)[:v.Bytes]
	_, err := s.ReadAt(dst, v.at)
	return dst, err == nil, err
}
