package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/statelab/statelab/internal/model/cachesim"
)

// WriteOracleGeneral writes t in libCacheSim's oracleGeneral format, a record
// of 24 bytes an access, little-endian, without a header:
//
//	uint32 clock_time         here the number of the Get
//	uint64 obj_id             here the number of the block
//	uint32 obj_size           decompressed bytes and blockCharge
//	int64  next_access_vtime  which access, counted from 1, asks for it next; -1: none
//
// Accesses before the first Get have its time. The layout is that of
// libCacheSim's oracleGeneralBin.h, the counting from 1 that of its converter
// (traceConv.cpp).
func WriteOracleGeneral(out io.Writer, t *cachesim.Trace, blockCharge int64) error {
	next := nextAccesses(t)
	buffered := bufio.NewWriterSize(out, 1<<20)
	get := 0
	for i, number := range t.Accesses {
		for get+1 < len(t.Gets) && int(t.Gets[get+1]) <= i {
			get++
		}
		vtime := int64(-1)
		if next[i] != 0 {
			vtime = int64(next[i])
		}
		var record [24]byte
		binary.LittleEndian.PutUint32(record[0:], uint32(get))
		binary.LittleEndian.PutUint64(record[4:], uint64(number))
		binary.LittleEndian.PutUint32(record[12:], uint32(int64(t.Blocks[number].Bytes)+blockCharge))
		binary.LittleEndian.PutUint64(record[16:], uint64(vtime))
		if _, err := buffered.Write(record[:]); err != nil {
			return fmt.Errorf("trace: export access %d: %w", i, err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("trace: export: %w", err)
	}
	return nil
}

// nextAccesses tells for each access which one, counted from 1, is the next to
// the same block; 0 is none.
func nextAccesses(t *cachesim.Trace) []uint32 {
	next := make([]uint32, len(t.Accesses))
	seen := make([]uint32, len(t.Blocks))
	for i := len(t.Accesses) - 1; i >= 0; i-- {
		number := t.Accesses[i]
		next[i] = seen[number]
		seen[number] = uint32(i + 1)
	}
	return next
}
