package iavl1

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"

	"github.com/cosmos/iavl"
	"github.com/cosmos/iavl/db"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/iavlforest"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/tree"
)

// Harvest reads the changes back out of an application.db, of iavl v0 too, by
// comparing every version of a tree with the one before. It opens the database
// for reading only: the node must be stopped, or dir a copy.
//
// dir is the database's directory (*.db) or the one around application.db.
func (Tree) Harvest(
	ctx context.Context, dir string, from, to int64,
	yield func(version int64, store string, c tree.Change) error,
) error {
	h, err := openHarvest(dir)
	if err != nil {
		return fmt.Errorf("iavl1: harvest: %w", err)
	}
	if err := errors.Join(h.run(ctx, from, to, yield), h.level.Close()); err != nil {
		return fmt.Errorf("iavl1: harvest versions %d to %d of %s: %w", from, to, dir, err)
	}
	return nil
}

// Survey finds the stores and the versions whose changes can be told.
func (Tree) Survey(_ context.Context, dir string) (tree.Survey, error) {
	h, err := openHarvest(dir)
	if err != nil {
		return tree.Survey{}, fmt.Errorf("iavl1: survey: %w", err)
	}
	if err := h.level.Close(); err != nil {
		return tree.Survey{}, fmt.Errorf("iavl1: survey %s: %w", dir, err)
	}
	return h.survey, nil
}

// ChainRoots reads what the SDK committed with every version: s/<version> holds
// CommitInfo{1 version, 2 StoreInfo{1 name, 2 CommitID{1 version, 2 hash}}}. Stores
// that are no trees, and trees that were empty, are left out.
func (Tree) ChainRoots(
	ctx context.Context, dir string, from, to int64,
	yield func(version int64, stores map[string][]byte) error,
) error {
	h, err := openHarvest(dir)
	if err != nil {
		return fmt.Errorf("iavl1: roots: %w", err)
	}

	for version := from; version <= to && err == nil && ctx.Err() == nil; version++ {
		var text []byte
		if text, err = h.level.Get(fmt.Appendf(nil, "s/%d", version)); err != nil || text == nil {
			continue
		}

		var roots map[string][]byte
		if roots, err = commitInfo(text, h.survey.Stores); err != nil {
			err = fmt.Errorf("the commit of version %d: %w", version, err)
		} else {
			err = yield(version, roots)
		}
	}

	if err := errors.Join(err, ctx.Err(), h.level.Close()); err != nil {
		return fmt.Errorf("iavl1: roots of versions %d to %d of %s: %w", from, to, dir, err)
	}

	return nil
}

// commitInfo reads the roots of stores.
func commitInfo(text []byte, stores []string) (map[string][]byte, error) {
	roots := map[string][]byte{}
	err := eachField(text, func(number protowire.Number, store []byte) error {
		if number != 2 {
			return nil
		}

		var name string
		var root []byte
		err := eachField(store, func(number protowire.Number, value []byte) error {
			switch number {
			case 1:
				name = string(value)
			case 2:
				return eachField(value, func(number protowire.Number, hash []byte) error {
					if number == 2 {
						root = hash
					}
					return nil
				})
			}

			return nil
		})

		if len(root) > 0 && slices.Contains(stores, name) {
			roots[name] = slices.Clone(root)
		}

		return err
	})

	return roots, err
}

// eachField calls visit with the fields of a message that are bytes.
func eachField(message []byte, visit func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeField(message)
		if n < 0 {
			return protowire.ParseError(n)
		}

		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(message)
			value, _ := protowire.ConsumeBytes(message[tag:n])
			if err := visit(number, value); err != nil {
				return err
			}
		}

		message = message[n:]
	}

	return nil
}

// harvest is a database opened to be read back.
type harvest struct {
	level  levelDB
	survey tree.Survey
}

func openHarvest(dir string) (*harvest, error) {
	parent, name := dir, iavlforest.DatabaseName
	if own, is := strings.CutSuffix(filepath.Base(filepath.Clean(dir)), db.DBFileSuffix); is {
		parent, name = filepath.Dir(filepath.Clean(dir)), own
	}

	path := filepath.Join(parent, name+db.DBFileSuffix)
	if _, err := os.Stat(filepath.Join(path, "CURRENT")); err != nil {
		return nil, &engine.NotADatabaseError{
			Dir: dir,
			Why: fmt.Sprintf("there is no LevelDB %s%s: %v", name, db.DBFileSuffix, err),
		}
	}

	// A young database of goleveldb has nothing that Pebble's could not have, but Pebble's has
	// options.
	if options, err := filepath.Glob(filepath.Join(path, "OPTIONS-*")); err != nil ||
		len(options) > 0 {
		found, recogniseErr := dbformat.Recognise(path)
		foreign := fmt.Errorf("%s was written by %s, and only databases of goleveldb can be "+
			"harvested (app-db-backend = \"goleveldb\" in app.toml)", path, found.Engine)
		return nil, cmp.Or(err, recogniseErr, foreign)
	}

	level, err := openLevelDB(parent, name, true)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}

	h := &harvest{level: level}
	if err := h.look(); err != nil {
		return nil, fmt.Errorf("survey %s: %w", dir, errors.Join(err, level.Close()))
	}

	return h, nil
}

// look finds stores and versions. The first version of a store whose history was
// pruned is left out: what it removed from the one before cannot be told.
func (h *harvest) look() error {
	names, err := iavlforest.Names(h.level)
	if err != nil {
		return err
	}

	committed, err := iavlforest.Latest(h.level)
	if err != nil {
		return err
	}

	h.survey = tree.Survey{First: math.MaxInt64}
	pruned := int64(0)
	for _, name := range names {
		first, last, whole, err := h.versions(name)
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}

		if last == 0 {
			continue
		}

		if !whole {
			pruned = max(pruned, first+1)
		}

		h.survey.Stores = append(h.survey.Stores, name)
		h.survey.First = min(h.survey.First, first)
		h.survey.Last = max(h.survey.Last, last)
	}

	if len(h.survey.Stores) == 0 {
		return errors.New("it holds no iavl tree")
	}

	h.survey.Pruned = pruned > 0
	h.survey.First = max(h.survey.First, pruned)
	if committed > 0 { // a kill can leave later versions of some stores
		h.survey.Last = min(h.survey.Last, committed)
	}

	return nil
}

// versions are the first and last of a store, and whether the first is where the
// store began: then all its leaves are of that version.
func (h *harvest) versions(store string) (first, last int64, whole bool, err error) {
	below := prefixed(h.level, store)
	t := iavl.NewMutableTree(below, harvestCacheNodes, true, iavl.NewNopLogger())
	if last, err = t.GetLatestVersion(); err != nil || last == 0 {
		return 0, 0, false, err
	}

	if first, err = firstLegacyVersion(below); err != nil {
		return 0, 0, false, err
	}

	if first == 0 {
		first = 1 + int64(sort.Search(int(last)-1, func(n int) bool {
			return t.VersionExists(int64(n) + 1)
		}))
	}

	whole = true
	if first > 1 {
		oldest, err := t.GetImmutable(first)
		if err != nil {
			return 0, 0, false, fmt.Errorf("version %d: %w", first, err)
		}

		oldest.IterateRangeInclusive(nil, nil, true, func(_, _ []byte, written int64) bool {
			whole = written == first
			return !whole
		})
	}

	return first, last, whole, t.Close()
}

// firstLegacyVersion is the first that iavl v0 wrote; 0 if there is none.
func firstLegacyVersion(below *db.PrefixDB) (int64, error) {
	const rootKeyBytes = 1 + 8 // r<version>
	i, err := below.Iterator([]byte("r"), []byte("s"))
	if err != nil {
		return 0, err
	}

	first := int64(0)
	if i.Valid() && len(i.Key()) == rootKeyBytes {
		first = int64(binary.BigEndian.Uint64(i.Key()[1:]))
	}

	return first, errors.Join(i.Error(), i.Close())
}

const (
	// harvestCacheNodes serves a part: neighbouring versions share their paths.
	harvestCacheNodes = 100_000
	// partVersions are compared by one goroutine after another, as each needs the
	// tree of the one before.
	partVersions = 64
)

// part is a store's changes of some versions.
type part struct {
	store    string
	from, to int64
	changes  chan map[int64][]*iavl.KVPair // one message
}

// run compares parts in parallel and yields them in order.
func (h *harvest) run(
	ctx context.Context, from, to int64,
	yield func(version int64, store string, c tree.Change) error,
) error {
	if from < h.survey.First || to > h.survey.Last || from > to {
		return fmt.Errorf("it holds the changes of versions %d to %d", h.survey.First,
			h.survey.Last)
	}

	workers := runtime.GOMAXPROCS(0)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers + 2)                                // with the two that follow
	parts := make(chan []part, 2*workers/len(h.survey.Stores)) // bounds what waits in memory
	group.Go(func() error {
		defer close(parts)
		return h.compare(ctx, group, from, to, parts)
	})

	group.Go(func() error { return h.yield(ctx, parts, yield) })
	return group.Wait()
}

// compare starts a goroutine for every part, as many at a time as the group allows, and
// hands on the parts of the same versions together.
func (h *harvest) compare(
	ctx context.Context, group *errgroup.Group, from, to int64, parts chan<- []part,
) error {
	for ; from <= to; from += partVersions {
		var same []part
		for _, store := range h.survey.Stores {
			p := part{
				store:   store,
				from:    from,
				to:      min(from+partVersions-1, to),
				changes: make(chan map[int64][]*iavl.KVPair, 1),
			}

			same = append(same, p)
			group.Go(func() error { return h.changes(ctx, p) })
		}

		select {
		case parts <- same:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return nil
}

func (h *harvest) changes(ctx context.Context, p part) error {
	t := iavl.NewImmutableTree(prefixed(h.level, p.store), harvestCacheNodes, true,
		iavl.NewNopLogger())
	found := map[int64][]*iavl.KVPair{}
	// The end is included, whatever its comment says.
	err := t.TraverseStateChanges(p.from, p.to, func(version int64, set *iavl.ChangeSet) error {
		found[version] = set.Pairs
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("store %s, versions %d to %d: %w", p.store, p.from, p.to, err)
	}

	p.changes <- found
	return nil
}

// yield takes the parts in the order of their versions.
func (h *harvest) yield(
	ctx context.Context, parts <-chan []part,
	yield func(version int64, store string, c tree.Change) error,
) error {
	for same := range parts {
		changes := make([]map[int64][]*iavl.KVPair, len(same))
		for i, p := range same {
			select {
			case changes[i] = <-p.changes:
			case <-ctx.Done():
				return ctx.Err()
			}
		}

		for version := same[0].from; version <= same[0].to; version++ {
			for i, p := range same {
				for _, pair := range changes[i][version] {
					if err := yield(version, p.store, tree.Change{
						Key:    pair.Key,
						Value:  pair.Value,
						Delete: pair.Delete,
					}); err != nil {
						return err
					}
				}
			}
		}
	}

	return nil
}
