package resolve

import (
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
)

// KeepsOpening reports whether opening tables brings blocks into the block cache:
// v1 reads their properties through it, v2 keeps them elsewhere.
func (r *Resolver) KeepsOpening() bool {
	return r.version == cachesim.PebbleV1 && len(r.tables) > 0
}

// RecordOpening writes what opening all tables, in the order of the level table,
// brings into the block cache before the first Get, as one Get that finds nothing.
func (r *Resolver) RecordOpening(out *trace.Writer) error {
	var numbers []uint32
	for _, t := range r.tables {
		numbers = append(numbers, out.Block(cachesim.Block{File: t.file, Offset: t.propertiesAt.offset, Level: uint8(t.level), Type: engine.Meta,
			Bytes: int32(t.propertiesAt.bytes), DiskBytes: int32(t.propertiesAt.bytes) + trailerBytes}))
	}
	return out.Get(false, numbers)
}
