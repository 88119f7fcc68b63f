package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/tree"
)

// maxSample bounds the keys that are followed through the whole set.
const maxSample = 100_000

// sample follows some keys of a set, so that Gets can be checked without a copy
// of the state: those whose hash is small. It belongs to the reading goroutine
// while that runs.
type sample struct {
	seed    uint64
	limit   uint64 // keys with a hash up to it
	maximum int
	keys    map[string]expected // store number and key
}

// expected is what a Get must find.
type expected struct {
	live  bool
	value uint64 // hash
	bytes int
}

func (s *sample) see(changes []changeset.Change) {
	for _, c := range changes {
		if s.hash(c.Store, c.Key) > s.limit {
			continue
		}

		e := expected{live: !c.Delete}
		if e.live {
			e.value, e.bytes = xxhash.Sum64(c.Value), len(c.Value)
		}

		s.keys[sampled(c.Store, c.Key)] = e
		if len(s.keys) > s.maximum {
			s.thin()
		}
	}
}

// thin keeps about half of the keys.
func (s *sample) thin() {
	s.limit /= 2
	for key := range s.keys {
		if store, own := apart(key); s.hash(store, own) > s.limit {
			delete(s.keys, key)
		}
	}
}

// hash is the same for a key in every run of one seed.
func (s *sample) hash(store int, key []byte) uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
	return (xxhash.Sum64(key) ^ s.seed ^ uint64(store)*odd) * odd
}

const storeBytes = 4

func sampled(store int, key []byte) string {
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(store)), key...))
}

func apart(key string) (store int, own []byte) {
	return int(binary.BigEndian.Uint32([]byte(key[:storeBytes]))), []byte(key[storeBytes:])
}

// get is one lookup and what it must find.
type get struct {
	store int
	key   []byte
	want  expected
}

// gets are lookups of present and of absent keys: half of each where there are
// present ones.
func (s *sample) gets(n uint64, seed uint64) []get {
	var present, absent []string
	for key, e := range s.keys {
		if e.live {
			present = append(present, key)
		} else {
			absent = append(absent, key)
		}
	}

	slices.SortFunc(present, strings.Compare)
	slices.SortFunc(absent, strings.Compare)
	random := rand.New(rand.NewPCG(seed, 0x676574)) // a stream of its own
	all := make([]get, 0, min(n, 2*maxSample))
	for i := uint64(0); i < uint64(cap(all)); i++ {
		var key string
		var want expected
		switch {
		case i%2 == 0 && len(present) > 0:
			key = present[random.IntN(len(present))]
			want = s.keys[key]
		case i%4 == 1 && len(absent) > 0 || len(present) == 0 && len(absent) > 0:
			key = absent[random.IntN(len(absent))] // removed
		case len(present) > 0: // never written: as long as a present key, another end
			base := []byte(present[random.IntN(len(present))])
			tail := binary.LittleEndian.AppendUint64(nil, random.Uint64())
			copy(base[max(storeBytes, len(base)-len(tail)):], tail)
			key = string(base)
			if e, known := s.keys[key]; known {
				want = e
			} else if len(key) < storeBytes+len(tail) {
				continue // so short that it may be a key of the set that is not followed
			}
		}

		if key == "" {
			return all
		}

		store, own := apart(key)
		all = append(all, get{store, own, want})
	}

	return all
}

// gets are Gets of sampled keys at the last version, for the timed loop: answers are
// checked against what the harness saw written.
type gets struct {
	all            []get
	stores         []string
	version        int64
	at             int // of the next one
	reader         tree.Reader
	store          int // of the one under way
	found, missing uint64
}

func (g *gets) Next(uint64) (key []byte, n uint64) {
	next := &g.all[g.at]
	g.at++
	g.store = next.store
	return next.key, 1
}

func (g *gets) Get(key, dst []byte) (value []byte, found bool, err error) {
	return g.reader.Get(g.store, key, dst)
}

func (g *gets) asked() *get { return &g.all[g.at-1] }

func (g *gets) LastRequest() string {
	return fmt.Sprintf("get key %x of store %s at version %d", g.asked().key, g.stores[g.store],
		g.version)
}

// Check compares an answer with what was written.
func (g *gets) Check(value []byte, found bool) error {
	want := g.asked().want
	switch {
	case want.live && !found:
		return errors.New("not found, but it was written and not removed")
	case !want.live && found:
		return errors.New("found, but it was removed or never written")
	case want.live && (len(value) != want.bytes || xxhash.Sum64(value) != want.value):
		return fmt.Errorf("a wrong value of %d bytes: %d were written last", len(value), want.bytes)
	case found:
		g.found++
	default:
		g.missing++
	}

	return nil
}

// read looks sampled keys up at the last version.
func (r *run) read(ctx context.Context) (err error) {
	reader, err := r.forest.Reader()
	if err != nil {
		return fmt.Errorf("make a reader: %w", err)
	}

	defer func() { err = errors.Join(err, reader.Close()) }()
	g := &gets{
		all:     r.sample.gets(r.spec.Gets, r.spec.Seed),
		stores:  r.stores,
		version: r.totals.version,
		reader:  reader,
	}

	total := uint64(len(g.all))
	err = timed.Run(
		ctx,
		r.Session,
		&timed.Team{Workers: []*timed.Worker{timed.NewWorker(r.Clock, g, g)}},
		readPhase,
		total,
		timed.Times{Service: r.gets},
		func(*timed.Tick[tree.Counters]) error {
			r.Tell(result.Event{Phase: readPhase, Done: r.gets.N(), Total: total, Unit: "Gets"})
			return nil
		},
	)

	figures := &r.Result.Figures
	figures.Found, figures.Missing, figures.Gets = g.found, g.missing, g.found+g.missing
	if err != nil && ctx.Err() == nil {
		figures.FailedGets = 1
	}

	return err
}

func (r *run) readFigures(c cost) {
	figures := &r.Result.Figures
	if figures.Gets == 0 {
		r.NotKnown("the change set has no keys to look up", "gets")
		return
	}

	figures.Seconds = float64(r.gets.Sum()) / 1e9
	figures.Record(figure.GetsPerSecond, float64(figures.Gets)/figures.Seconds)
	figures.ServiceNanos = new(r.gets.Summary())
	figures.Record(figure.DeviceReadBytesPerGet, float64(c.Process.ReadBytes)/float64(figures.Gets))
	figures.DeviceSource = "the kernel's account of the process (/proc/self/io)"
}
