//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

const (
	asideCacheBytes = 32 << 20
	// strideKeys smooths the choice: the key behind a random point is the likelier
	// the larger the gap before it, one up to strideKeys further on depends on the
	// mean gap of that many keys only.
	strideKeys = 32
)

// SampleKeys draws entries of tables, each key with the same chance (blockbased.Drawer). Of a
// family whose tables cannot be resolved, or have more metadata than maxDrawnMetadata, it seeks to
// random points between the first and last keys of tables, chosen by their entries, and walks on by
// up to strideKeys keys: keys that are evenly spread, such as hashes, are sampled evenly then; keys
// behind gaps come up too often.
//
// It reads through a second handle, so that statistics and block cache stay as
// they are.
func (d *db) SampleKeys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) (err error) {
	if err := d.Sync(ctx); err != nil {
		return err
	}

	aside, err := d.openAside()
	if err != nil {
		return fmt.Errorf("rocksdb: open a second time to sample keys: %w", err)
	}

	defer func() { err = errors.Join(err, aside.Close()) }()
	mix := d.settings.mix
	if len(mix) == 0 {
		mix = []adapter.Portion{{Name: defaultFamily, Share: 1}}
	}

	return adapter.SampleMix(mix, n, func(table, n int, yield func([]byte) error) error {
		return aside.sample(ctx, aside.asked()[table], n, seed, yield)
	}, yield)
}

// sample draws n keys of a family.
func (d *db) sample(
	ctx context.Context, f family, n int, seed uint64, yield func(key []byte) error,
) error {
	spans := spansOf(d.liveTables()[f.name])
	if drawn, err := d.drawKeys(ctx, f, spans, n, seed, yield); drawn || err != nil {
		return err
	}

	options, err := d.readOptions(f)
	if err != nil {
		return err
	}

	defer C.rocks_readoptions_destroy(options)
	// with a prefix extractor, filters would hide most tables
	C.rocks_readoptions_set_total_order_seek(options, 1)
	it := C.rocks_create_iterator_cf(d.rocks, options, f.handle)
	defer C.rocks_iter_destroy(it)
	rng := rand.New(rand.NewPCG(seed, 0x5a3d))
	for range n {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}

		_, point := spans.draw(rng)
		key, err := sampleKey(it, point, rng.IntN(strideKeys))
		if errors.Is(err, errNone) {
			return d.errNoKeys()
		}

		if err != nil {
			return err
		}

		if err := yield(key); err != nil {
			return err
		}
	}

	return nil
}

// maxDrawnMetadata bounds the filters and indexes that are read to draw keys: those of tables of a
// hundred times as many bytes, about.
const maxDrawnMetadata = 512 << 20

// drawKeys draws keys of a family from its tables. drawn is false where that cannot be done: then
// no key was yielded.
func (d *db) drawKeys(
	ctx context.Context, f family, of spans, n int, seed uint64, yield func(key []byte) error,
) (drawn bool, err error) {
	const metadataShare = 100
	bytes := int64(0)
	for _, t := range of.all {
		bytes += t.bytes
	}

	if bytes > metadataShare*maxDrawnMetadata || !d.settings.readOnly {
		return false, nil
	}

	r, err := blockbased.Open(d.settings.dir, f.name, nil)
	if err != nil {
		return false, nil // it is not resolved: a family of timestamps, or in another order
	}

	defer func() { err = errors.Join(err, r.Close()) }()
	drawer := r.Drawer(rand.New(rand.NewPCG(seed, 0x5a3d)))
	var key []byte
	for i := range n {
		if err := ctx.Err(); err != nil {
			return true, context.Cause(ctx)
		}

		if key, err = drawer.Draw(key[:0]); err != nil && i == 0 {
			return false, nil
		} else if err != nil {
			return true, err
		}

		if err := yield(key); err != nil {
			return true, err
		}
	}

	return true, nil
}

func (d *db) openAside() (aside *db, err error) {
	const all = 1 << 20 // handles: to look is not to be measured
	aside = &db{settings: settings{
		layout:   d.settings.layout,
		dir:      d.settings.dir,
		chosen:   d.settings.chosen,
		mix:      d.settings.mix,
		readOnly: true,
		foreign:  d.settings.foreign,
		handles:  all,
	}}
	tables := 0
	for _, of := range d.liveTables() {
		tables += len(of)
	}
	if d.settings.handles < 0 {
		aside.settings.otherFiles = tables
	} else {
		aside.settings.otherFiles = min(tables, d.settings.handles)
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, aside.Close())
		}
	}()

	aside.cache = C.rocks_cache_create_lru(asideCacheBytes)
	if err := aside.takeOptions(); err != nil {
		return aside, err
	}

	aside.writes = C.rocks_writeoptions_create()
	return aside, aside.openFamilies()
}

var errNone = errors.New("no key to sample")

// sampleKey is the key steps behind the first one at or after point, going round
// at the end.
func sampleKey(it *C.rocksdb_iterator_t, point []byte, steps int) ([]byte, error) {
	C.rocks_iter_seek(it, chars(point), C.size_t(len(point)))
	for ; ; steps-- {
		if C.rocks_iter_valid(it) == 0 {
			C.rocks_iter_seek_to_first(it)
		}

		if C.rocks_iter_valid(it) == 0 {
			var message *C.char
			C.rocks_iter_get_error(it, &message)
			if err := errFromC(message); err != nil {
				return nil, explained(err)
			}

			return nil, errNone
		}

		if steps == 0 {
			break
		}

		C.rocks_iter_next(it)
	}

	var n C.size_t
	key := C.rocks_iter_key(it, &n)
	return C.GoBytes(unsafe.Pointer(key), C.int(n)), nil
}

var (
	_ engine.KeySampler       = (*db)(nil)
	_ engine.MemoryReporter   = (*db)(nil)
	_ engine.BackgroundWorker = (*db)(nil)
)
