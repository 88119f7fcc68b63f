//go:build linux

package chunktrie

import "github.com/statelab/statelab/internal/chain/mpt"

// Compaction is part of every block: nodes older than a boundary move to the end
// of the slow list, so that the oldest chunks die whole and, once no kept version
// reaches them, are freed. A child's oldest places tell whether anything below it
// has to move.

// keep returns a subtrie that no edit changes, with what is too old moved.
func (w *writer) keep(r ref) (ref, error) {
	if r.at == 0 || r.oldest[fast] >= w.boundary[fast] && r.oldest[slow] >= w.boundary[slow] {
		return r, nil
	}
	d, err := w.loadAny(r)
	if err != nil {
		return ref{}, err
	}
	d.moved, d.hash = true, r.hash
	if d.hash == (mpt.Ref{}) {
		return ref{}, errHash
	}
	return w.seal(d)
}

// compaction is how eagerly old chunks are emptied.
type compaction struct {
	garbagePercent int // of the chunks that no kept version is still writing to
	pace           int // bytes of a list passed for each byte that the last block wrote
}

// boundary is the place in a list below which nodes are moved with the next block.
// limit is the sequence of the chunk that was being filled when the oldest kept
// version was written: beyond it nothing could be freed.
func (c compaction) boundary(f *chunkFile, list int, oldest, limit uint32, lastBlockBytes int64) uint32 {
	if oldest == noPlace {
		return 0
	}
	var bytes, live int64
	for _, chunk := range f.lists[list].chunks {
		if chunk.sequence < limit && f.place(chunk.sequence, f.chunkBytes-1) >= oldest {
			bytes += f.chunkBytes
			live += chunk.live
		}
	}
	if bytes == 0 || (bytes-live)*100 < bytes*int64(c.garbagePercent) {
		return 0
	}
	steps := max(1, lastBlockBytes*int64(c.pace)/placeBytes)
	return uint32(min(int64(oldest)+steps, int64(f.place(limit, 0))))
}
