package blockbased

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/kvlog"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// QueryTrace reads a trace of queries, as DB::StartTrace of RocksDB writes it
// (trace_replay/trace_replay.cc): records of a time, a kind and a payload. It yields the operations
// on one column family.
type QueryTrace struct {
	name    string
	in      *bufio.Reader
	family  uint32
	records uint64
	time    uint64 // of the newest record, us
	payload []byte
	queue   []kvlog.Op // of the newest record
	// Others are the operations on other families, and deletions of ranges, that were left out.
	Others uint64
}

const (
	traceMagic      = "feedcafedeadbeef\tTrace Version: 0.2\t"
	traceHeadBytes  = 8 + 1 + 4
	maxTracePayload = 256 << 20
)

// Kinds of records of all of RocksDB's traces.
const (
	traceBegin, traceEnd        = 1, 2
	traceWrite, traceGet        = 3, 4
	traceSeek, traceSeekForPrev = 5, 6
	traceMultiGet               = 13
)

// The fields of a payload come in this order; its first 8 bytes have a bit for each.
const (
	traceBatch, traceGetFamily, traceGetKey = 1, 2, 3
	traceSeekFamily, traceSeekKey           = 4, 5
	traceLower, traceUpper                  = 6, 7
	traceKeys, traceFamilies, traceKeysOf   = 8, 9, 10
)

// OpenQueryTrace reads the header of a trace, whose errors name it name.
func OpenQueryTrace(in *bufio.Reader, name string, family uint32) (*QueryTrace, error) {
	t := &QueryTrace{name: name, in: in, family: family}
	kind, err := t.record()
	if err == nil && (kind != traceBegin || !bytes.HasPrefix(t.payload, []byte(traceMagic))) {
		return nil, engine.Fail(engine.CodeUnsupported, "%s: not a trace of queries of version "+
			"0.2, which RocksDB writes since 2021", name)
	}

	if err != nil {
		return nil, t.damage(err)
	}

	return t, nil
}

// Info implements kvlog.Source.
func (t *QueryTrace) Info() kvlog.Info {
	return kvlog.Info{Form: fmt.Sprintf("trace of queries of RocksDB, column family %d", t.family)}
}

// Close implements kvlog.Source.
func (t *QueryTrace) Close() error { return nil }

func (t *QueryTrace) damage(err error) error {
	return engine.Fail(engine.CodeDamaged, "%s: record %d: %w", t.name, t.records, err).WithRemedy(
		"trace again, and end the trace (DB::EndTrace) before the file is copied")
}

// record reads the next record's payload.
func (t *QueryTrace) record() (kind byte, err error) {
	var head [traceHeadBytes]byte
	if _, err := io.ReadFull(t.in, head[:1]); err == io.EOF {
		return traceEnd, nil // of a trace that nobody ended
	}

	t.records++
	_, err = io.ReadFull(t.in, head[1:])
	n := binary.LittleEndian.Uint32(head[traceHeadBytes-4:])
	t.time = binary.LittleEndian.Uint64(head[:])
	if err == nil && n > maxTracePayload {
		return 0, fmt.Errorf("a payload of %d bytes", n)
	}

	if err == nil {
		t.payload = append(t.payload[:0], make([]byte, n)...)
		_, err = io.ReadFull(t.in, t.payload)
	}

	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends early")
	}

	return head[8], err
}

// Next implements kvlog.Source.
func (t *QueryTrace) Next(op *kvlog.Op) error {
	for len(t.queue) == 0 {
		kind, err := t.record()
		if err == nil && kind == traceEnd {
			return io.EOF
		}

		if err == nil {
			err = t.parse(kind)
		}

		if err != nil {
			return t.damage(err)
		}
	}

	*op, t.queue = t.queue[0], t.queue[1:]
	return nil
}

func (t *QueryTrace) add(family uint32, op kvlog.Op) {
	if family != t.family {
		t.Others++
		return
	}
	t.queue = append(t.queue, op)
}

func (t *QueryTrace) parse(kind byte) error {
	t.queue = t.queue[:0]
	f := lsmtail.Fields{Rest: t.payload}
	has := f.Fixed(8)
	var family uint32
	var key, families, keys []byte
	for ; has != 0 && f.Err == nil; has &= has - 1 {
		switch field := bits.TrailingZeros64(has); field {
		case traceBatch:
			err := eachEntry(f.Text(), func(family uint32, kind byte, key, value []byte) {
				switch kind {
				case kindValue, kindMerge:
					t.add(family, kvlog.Op{
						Kind:   kvlog.BatchPut,
						Key:    key,
						Number: uint64(len(value)),
					})
				case kindRange:
					t.Others++
				default:
					t.add(family, kvlog.Op{Kind: kvlog.BatchDelete, Key: key})
				}
			})
			if err != nil {
				return err
			}
		case traceGetFamily, traceSeekFamily:
			family = uint32(f.Fixed(4))
		case traceGetKey, traceSeekKey:
			key = f.Text()
		case traceKeys:
			f.Fixed(4)
		case traceFamilies:
			families = f.Text()
		case traceKeysOf:
			keys = f.Text()
		case traceLower, traceUpper:
			f.Text()
		default:
			return fmt.Errorf("a payload with the unknown field %d", field)
		}
	}

	switch kind {
	case traceWrite:
		if len(t.queue) > 0 {
			t.queue = append(t.queue, kvlog.Op{Kind: kvlog.Commit})
		}
	case traceGet:
		t.add(family, kvlog.Op{Kind: kvlog.Get, Key: key})
	case traceSeek, traceSeekForPrev:
		t.add(family, kvlog.Op{Kind: kvlog.Scan, Key: key})
	case traceMultiGet:
		of, asked := lsmtail.Fields{Rest: families}, lsmtail.Fields{Rest: keys}
		for len(of.Rest) > 0 && of.Err == nil && asked.Err == nil {
			t.add(uint32(of.Fixed(4)), kvlog.Op{Kind: kvlog.Get, Key: asked.Text()})
		}
		f.Err = errors.Join(f.Err, of.Err, asked.Err)
	default:
		return fmt.Errorf("a record of the unknown kind %d", kind)
	}

	return f.Err
}
