package advise

import (
	"fmt"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/result/figure"
)

// nearlyBest is how much more than the largest cache the recommended one may read, as a share.
const nearlyBest = 0.01

// JudgeTrace recommends the smallest block cache that reads nearly as little for the Gets of the
// trace r.List as the largest one: that for which there is memory, or one that holds all blocks.
// Every figure is of the same Gets. floor is what a cache that holds all blocks reads per Get.
func (r *RocksAdvice) JudgeTrace(tables []fidelity.Table, floor float64) error {
	r.Schema, r.Tables = schema.RocksAdvice, []TableShare{}
	maximum, err := r.maximum(tables)
	if err != nil {
		return err
	}

	reads := r.memoized()
	if r.Now, err = reads(r.NowBytes); err != nil {
		return err
	}

	const nothing = 1e-9 // of sums of shares
	mostUneven := max(minRocksCache, 8*r.List.Bytes)
	for cacheBytes := int64(minRocksCache); ; cacheBytes *= 2 {
		place, err := reads(cacheBytes)
		if err != nil {
			return err
		}

		r.Curve = append(r.Curve, place)
		if place.BlockReadsPerGet <= floor+nothing || cacheBytes >= mostUneven {
			break
		}
	}

	if r.MemoryBytes == 0 {
		maximum = max(r.NowBytes, r.Curve[len(r.Curve)-1].CacheBytes)
	}

	if r.Then, r.best, err = r.smallest(reads, maximum); err != nil {
		return err
	}

	_, flag := advice.RocksDBCache(r.Client, r.Then.CacheBytes)
	r.Flags, r.Answer = []string{flag}, r.answer(r.Now)
	return nil
}

// memoized is what Gets of the trace read with a block cache, each size simulated once.
func (r *RocksAdvice) memoized() func(cacheBytes int64) (RocksPlace, error) {
	known := map[int64]RocksPlace{}

	return func(cacheBytes int64) (RocksPlace, error) {
		if place, is := known[cacheBytes]; is {
			return place, nil
		}

		perGet, err := r.Reads(Together, cacheBytes)
		known[cacheBytes] = RocksPlace{CacheBytes: cacheBytes, BlockReadsPerGet: perGet}
		return known[cacheBytes], err
	}
}

// smallest is the smallest cache that reads nearly as little as the largest one, which is best; the
// present one, if it does.
func (r *RocksAdvice) smallest(
	reads func(int64) (RocksPlace, error), maximum int64,
) (then, best RocksPlace, err error) {
	if best, err = reads(maximum); err != nil {
		return then, best, err
	}

	goal := best.BlockReadsPerGet + max(figure.BlockReadsPerGet.Least,
		nearlyBest*best.BlockReadsPerGet)
	if r.NowBytes <= maximum && r.Now.BlockReadsPerGet <= goal {
		return r.Now, best, nil
	}

	low, then := int64(0), best
	for _, place := range r.Curve {
		if place.CacheBytes >= maximum {
			break
		}

		if place.BlockReadsPerGet <= goal {
			then = place
			break
		}

		low = place.CacheBytes
	}

	const halvings = 4
	for range halvings {
		middle := (low + then.CacheBytes) / 2 >> 16 << 16
		if middle <= low || middle < minRocksCache {
			break
		}

		place, err := reads(middle)
		if err != nil {
			return then, best, err
		}

		if place.BlockReadsPerGet <= goal {
			then = place
		} else {
			low = middle
		}
	}

	return then, best, nil
}

// traceAnswer says what the recommended cache reads for the Gets of the trace.
func (r *RocksAdvice) traceAnswer() string {
	within := ""
	if r.MemoryBytes > 0 {
		within = " within " + unit.Bytes(r.MemoryBytes)
	}

	if r.Then.CacheBytes == r.Now.CacheBytes {
		return fmt.Sprintf("No larger block cache%s saves more than %.0f%% of them.", within,
			100*nearlyBest)
	}

	return fmt.Sprintf("%s would read %s for the same Gets, and no larger one%s less than %s.",
		unit.Bytes(r.Then.CacheBytes), unit.Significant(r.Then.BlockReadsPerGet, 3), within,
		unit.Significant(r.best.BlockReadsPerGet, 3))
}
