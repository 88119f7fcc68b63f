// Package replaytest is a small durable tree that fails on demand: for tests of
// the replay, of its resuming and of what becomes of a tree that hangs, lies or
// dies.
//
// Its state is a log of the committed versions and a map in memory; a root is the
// SHA-256 of a store's keys and values in order. Non-goals: speed.
package replaytest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// Tree is the tree. Its overrides name what goes wrong, and at which version.
type Tree struct{}

// What can go wrong.
const (
	HangAt         = "HangAt"         // Commit does not return
	WrongVersionAt = "WrongVersionAt" // Commit returns the version before
	WrongRootAt    = "WrongRootAt"    // from this version on
	FailAt         = "FailAt"         // Commit returns an error
	PanicAt        = "PanicAt"
	ForgetAt       = "ForgetAt" // removed keys can be found from this version on
	// Lazy keeps so many versions in memory before they are written: a kill loses
	// them.
	Lazy = "Lazy"
	// CommitMillis is how long each commit takes.
	CommitMillis = "CommitMillis"
)

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:         "replaytest",
		Version:      "1",
		Route:        "built in",
		Licence:      "as statelab",
		RootRule:     "replaytest",
		Durability:   "a kill loses nothing but what Lazy keeps",
		History:      "the newest version",
		Capabilities: []tree.Capability{tree.IsDurable},
		Profiles:     []engine.Profile{{Name: "default", About: "for tests"}},
	}
}

// Check names what is wrong with o.
func (Tree) Check(o tree.Options) (errs []error) {
	for name, value := range o.Overrides {
		if !slices.Contains([]string{HangAt, WrongVersionAt, WrongRootAt, FailAt, PanicAt,
			ForgetAt, Lazy, CommitMillis}, name) {
			errs = append(errs, fmt.Errorf("unknown option %q", name))
		} else if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			errs = append(errs, fmt.Errorf("option %s=%s is not a number", name, value))
		}
	}

	return errs
}

// version is one entry of the log.
type version struct {
	Version int64
	Changes []change
}

type change struct {
	Store  int
	Key    string
	Value  []byte
	Remove bool
}

type forest struct {
	options tree.Options
	stores  []map[string][]byte
	removed []map[string][]byte
	file    *os.File
	at      version // being built
	waiting []version
	version int64
	sets    int64
}

// Open reads the log again.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	if errs := t.Check(o); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	f := &forest{
		options: o,
		stores:  make([]map[string][]byte, len(o.Stores)),
		removed: make([]map[string][]byte, len(o.Stores)),
	}

	for i := range f.stores {
		f.stores[i], f.removed[i] = map[string][]byte{}, map[string][]byte{}
	}

	var err error
	if f.file, err = os.OpenFile(filepath.Join(o.Dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND,
		0o644); err != nil {
		return nil, err
	}

	log, err := io.ReadAll(f.file)
	if err != nil {
		return nil, err
	}

	read := bytes.NewReader(log)
	for {
		var v version
		whole := len(log) - read.Len()
		if err := gob.NewDecoder(read).Decode(&v); err == io.EOF ||
			errors.Is(err, io.ErrUnexpectedEOF) {
			// a killed process can leave part of an entry
			if err := f.file.Truncate(int64(whole)); err != nil {
				return nil, err
			}
			break
		} else if err != nil {
			return nil, err
		}

		f.version = v.Version
		for _, c := range v.Changes {
			f.apply(c)
		}
	}

	f.sets = 0
	return f, nil
}

func (f *forest) is(what string) bool { return f.number(what) == f.next() }

func (f *forest) number(what string) int64 {
	n, err := strconv.ParseInt(f.options.Overrides[what], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (f *forest) next() int64 {
	if f.version == 0 {
		return max(1, f.options.FirstVersion)
	}
	return f.version + 1
}

func (f *forest) apply(c change) {
	f.sets++
	if !c.Remove {
		f.stores[c.Store][c.Key] = c.Value
		delete(f.removed[c.Store], c.Key)
		return
	}

	if value, ok := f.stores[c.Store][c.Key]; ok {
		f.removed[c.Store][c.Key] = value
	}

	delete(f.stores[c.Store], c.Key)
}

func (f *forest) Version() int64 { return f.version }

func (f *forest) Set(store int, key, value []byte) error {
	f.at.Changes = append(f.at.Changes, change{
		Store: store,
		Key:   string(key),
		Value: slices.Clone(value),
	})
	return nil
}

func (f *forest) Remove(store int, key []byte) error {
	f.at.Changes = append(f.at.Changes, change{Store: store, Key: string(key), Remove: true})
	return nil
}

func (f *forest) Commit(context.Context) (tree.Commit, error) {
	time.Sleep(time.Duration(f.number(CommitMillis)) * time.Millisecond)
	switch {
	case f.is(HangAt):
		hang()
	case f.is(PanicAt):
		panic("a branch without leaves")
	case f.is(FailAt):
		return tree.Commit{}, errors.New("the node store is closed")
	}

	f.at.Version = f.next()
	for _, c := range f.at.Changes {
		f.apply(c)
	}

	returned := f.at.Version
	if f.is(WrongVersionAt) {
		returned--
	}

	f.version = f.at.Version
	f.waiting = append(f.waiting, f.at)
	f.at = version{}
	if int64(len(f.waiting)) > f.number(Lazy) {
		if err := f.write(f.waiting[:1]); err != nil {
			return tree.Commit{}, err
		}
		f.waiting = f.waiting[1:]
	}

	return tree.Commit{Version: returned, Roots: f.roots()}, nil
}

// hang waits for what never comes, in a function with a name to find.
func hang() { <-make(chan struct{}) }

func (f *forest) roots() [][]byte {
	var roots [][]byte
	for _, store := range f.stores {
		hash := sha256.New()
		for _, key := range slices.Sorted(maps.Keys(store)) {
			fmt.Fprintf(hash, "%d %s %d %s", len(key), key, len(store[key]), store[key])
		}

		if at := f.number(WrongRootAt); at > 0 && f.version >= at {
			hash.Write([]byte("wrong"))
		}

		roots = append(roots, hash.Sum(nil))
	}

	return roots
}

func (f *forest) write(versions []version) error {
	for _, v := range versions {
		var entry bytes.Buffer // gob writes an entry in several parts
		if err := gob.NewEncoder(&entry).Encode(v); err != nil {
			return err
		}

		if _, err := f.file.Write(entry.Bytes()); err != nil {
			return err
		}
	}

	return nil
}

func (f *forest) Sync(context.Context) error {
	err := f.write(f.waiting)
	f.waiting = nil
	return err
}

func (f *forest) Reader() (tree.Reader, error) { return reader{f}, nil }

func (f *forest) Shape() ([]tree.StoreShape, error) {
	var shapes []tree.StoreShape
	for _, store := range f.stores {
		shapes = append(shapes, tree.StoreShape{Leaves: int64(len(store)), Height: 1})
	}
	return shapes, nil
}

func (f *forest) Counters() tree.Counters {
	sets := f.sets
	return tree.Counters{Nodes: &sets, DBSets: &sets}
}

func (f *forest) Effective() map[string]string { return maps.Clone(f.options.Overrides) }

func (*forest) Warnings() []engine.Warning { return nil }

func (f *forest) Close() error { return errors.Join(f.write(f.waiting), f.file.Close()) }

type reader struct{ f *forest }

func (r reader) Get(store int, key, dst []byte) ([]byte, bool, error) {
	value, found := r.f.stores[store][string(key)]
	if at := r.f.number(ForgetAt); !found && at > 0 && r.f.version >= at {
		value, found = r.f.removed[store][string(key)]
	}
	return append(dst[:0], value...), found, nil
}

func (reader) Close() error { return nil }
