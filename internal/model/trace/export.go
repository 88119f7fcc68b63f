package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/statelab/statelab/engine"
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
		binary.LittleEndian.PutUint32(record[12:],
			uint32(int64(t.Blocks[number].Bytes)+blockCharge))
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

// Made is a trace that was written.
type Made struct {
	Header   Header
	Totals   Totals
	PerGet   PerGet
	Warnings []engine.Warning // of what was traced
}

// OpenFiles is the limit of open files that a database was traced with.
type OpenFiles struct {
	Limit  int `json:"limit"` // below 0: none
	Tables int `json:"tables"`
	// Enough is the least limit with which all tables stay open; 0: they do with Limit.
	Enough int `json:"enough,omitempty"`
}

func (o OpenFiles) String() string {
	return fmt.Sprintf("a limit of %d open files (max_open_files) does not keep %d tables open",
		o.Limit, o.Tables)
}

// Warning is about Gets that open tables again.
func (o OpenFiles) Warning() engine.Warning {
	return engine.Warning{
		Code: "tables_reopened",
		Text: o.String() + ", so Gets open them again and read their footers, properties, " +
			"indexes and filters once more: these reads are among those told",
		Remedy: fmt.Sprintf("raise the owner's max_open_files to at least %d; to see what that "+
			"saves, give --max-open-files %d", o.Enough, o.Enough),
	}
}

// Merge writes the trace of a key stream of which parts are consecutive shares, in any order.
// It is the trace of the whole stream, byte for byte: blocks are numbered again in the order of
// their first use.
func Merge(out io.Writer, parts []io.Reader) (Made, error) {
	inOrder, header, err := arrange(parts)
	if err != nil {
		return Made{}, err
	}

	w, err := NewWriter(out, header)
	if err != nil {
		return Made{}, err
	}

	numbers, offered := map[cachesim.Block]uint32{}, uint64(0)
	for i, r := range inOrder {
		if err := w.append(r, numbers); err != nil {
			return Made{}, fmt.Errorf("part %d/%d: %w", i+1, len(inOrder), err)
		}
		offered += r.Totals().Offered
	}

	totals, err := w.Close(offered)
	return Made{header, totals, w.PerGet(), nil}, err
}

// MergeFiles is Merge of the parts in files.
func MergeFiles(out io.Writer, paths []string) (Made, error) {
	var parts []io.Reader
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return Made{}, err
		}

		defer file.Close() // it was only read
		parts = append(parts, bufio.NewReaderSize(file, 1<<20))
	}

	return Merge(out, parts)
}

// arrange opens the parts of one trace in their order; header is that of the whole.
func arrange(parts []io.Reader) (inOrder []*Reader, header Header, err error) {
	inOrder = make([]*Reader, len(parts))
	for i, part := range parts {
		r, err := NewReader(part)
		if err != nil {
			return nil, header, err
		}

		this := r.Header()
		p := this.Part
		this.Part = engine.Part{}
		switch {
		case p.Of == 0:
			return nil, header, fmt.Errorf("trace: this is not a part of a trace (statelab trace " +
				"--part K/N makes one)")
		case p.Of != len(parts) || p.Number < 1 || p.Number > p.Of:
			return nil, header, fmt.Errorf("trace: part %d/%d among %d parts", p.Number, p.Of,
				len(parts))
		case i > 0 && !reflect.DeepEqual(this, header):
			return nil, header, fmt.Errorf("trace: part %d/%d is of another key stream or "+
				"database than the one before it", p.Number, p.Of)
		case inOrder[p.Number-1] != nil:
			return nil, header, fmt.Errorf("trace: part %d/%d is given twice", p.Number, p.Of)
		}

		inOrder[p.Number-1], header = r, this
	}

	return inOrder, header, nil
}

// append writes the Gets that are left in r; numbers are the writer's.
func (w *Writer) append(r *Reader, numbers map[cachesim.Block]uint32) error {
	var own []uint32 // the writer's numbers plus one, by r's; 0: not looked up yet
	var get []uint32
	for {
		var found bool
		var err error
		if get, found, err = r.Next(get); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}

		blocks := r.Blocks()
		own = append(own, make([]uint32, len(blocks)-len(own))...)
		for i, number := range get {
			if own[number] == 0 {
				known, is := numbers[blocks[number]]
				if !is {
					known = w.Block(blocks[number])
					numbers[blocks[number]] = known
				}

				own[number] = known + 1
			}

			get[i] = own[number] - 1
		}

		if err := w.Get(found, get); err != nil {
			return err
		}
	}
}
