//go:build cgo

package avlite

import (
	"context"
	"errors"
	"os"
	"reflect"
	"time"

	"cosmossdk.io/log"
	dbm "github.com/cosmos/cosmos-db"
	"github.com/cosmos/iavl"

	"github.com/statelab/statelab/tree"
)

// store is one tree with its log, whose full segments a goroutine checkpoints.
type store struct {
	tree     *iavl.MutableTree
	wal      *iavl.Wal
	closeLog func() error
	segments *gauge // of the log
	stop     context.CancelFunc
	ended    chan error // of the checkpointer
	failed   error      // what it ended with
}

// createStore builds the tree on the forest's database; the keys of a store have
// the prefix that Cosmos gives them.
func (f *forest) createStore(dir, name string) (*store, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	segments, err := iavl.NewTidwalLog(dir)
	if err != nil {
		return nil, err
	}
	db := dbm.NewPrefixDB(f.db, []byte("s/k:"+name+"/"))
	s := &store{
		wal:      iavl.NewWal(segments, db, nil), // it has no use for its third argument, an SQLite database
		closeLog: segments.Close,
		segments: &gauge{},
		ended:    make(chan error, 1),
	}
	s.wal.MetricWalSize = s.segments
	s.wal.MetricCacheHit = &f.counts.logHits
	if err := checkpointEvery(s.wal, f.every); err != nil {
		return nil, errors.Join(err, segments.Close())
	}
	nodes, err := iavl.NewKeyValueBackend(db, int(f.nodes), s.wal)
	if err != nil {
		return nil, errors.Join(err, segments.Close())
	}
	nodes.MetricCacheHit = &f.counts.cacheHits
	nodes.MetricCacheMiss = &f.counts.cacheMisses
	nodes.MetricDbFetch = &f.counts.dbGets
	s.tree = newTree(db, countingNodes{nodes, &f.counts.nodes}, uint64(f.next))

	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.ended <- s.wal.CheckpointRunner(ctx) }()
	return s, nil
}

func newTree(db dbm.DB, nodes iavl.NodeBackend, firstVersion uint64) *iavl.MutableTree {
	const noFastNodes = true
	o := iavl.Options{NodeBackend: nodes, InitialVersion: firstVersion}
	return iavl.NewMutableTreeWithOpts(db, 0, &o, noFastNodes, log.NewNopLogger())
}

// alive asks whether the checkpointer still runs: without it commits would wait
// for ever, once its queue is full.
func (s *store) alive() error {
	select {
	case s.failed = <-s.ended:
	default:
	}
	return s.failed
}

// checkpointSegments is how many log segments lie between two checkpoints.
func checkpointSegments() tree.Override {
	return tree.Override{Name: "CheckpointSegments", Default: 100, Low: 1, High: 10_000}
}

// checkpointEvery sets the distance of checkpoints, for which the library has a field
// but no option.
func checkpointEvery(log *iavl.Wal, segments int64) error {
	field := reflect.ValueOf(log).Elem().FieldByName("checkpointInterval")
	if !field.IsValid() || field.Kind() != reflect.Int || field.Int() != checkpointSegments().Default {
		return errors.New("this version of the library has no checkpoint interval of 100 segments")
	}
	*(*int)(field.Addr().UnsafePointer()) = int(segments)
	return nil
}

// waitCheckpoint returns when all due checkpoints are written. A checkpoint ends
// with the removal of the segments before it, and the first is due when
// every segments follow the first one.
func (s *store) waitCheckpoint(ctx context.Context, every int64) error {
	written := s.segments.adds.Load()
	if written <= every {
		return s.alive()
	}
	first := uint64(1 + (written-1)/every*every)
	for {
		at, err := s.wal.FirstIndex()
		if err == nil {
			err = s.alive()
		}
		if err != nil || at >= first {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *store) close() error {
	s.stop()
	if s.alive() == nil {
		s.failed = <-s.ended
	}
	if errors.Is(s.failed, context.Canceled) {
		s.failed = nil
	}
	return errors.Join(s.failed, s.closeLog())
}
