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
	"github.com/statelab/statelab/internal/base/unit"
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

	// Of the record before, and of those that are the same, at the same time.
	before     []byte
	beforeTime uint64
	same       uint64
	ended      bool // by a record of DB::EndTrace
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
	return kvlog.Info{
		Form: fmt.Sprintf("trace of queries of RocksDB, column family %d", t.family),
		NotChecked: []string{"a trace of queries has no numbers of records, and says neither how " +
			"many there are nor whether all queries were traced (TraceOptions.sampling_frequency " +
			"and filter): queries that are missing cannot be seen"},
	}
}

// Doubts implements kvlog.Doubtful.
func (t *QueryTrace) Doubts() (all []string) {
	if !t.ended {
		all = append(all, "the trace has no end (DB::EndTrace was not called, or the file was cut "+
			"between two records): queries at its end can be missing")
	}

	if t.same > 0 {
		all = append(all, fmt.Sprintf("%s records are the same as the record before them, and at "+
			"the same microsecond: two threads asked the same, or records are there twice",
			unit.Count(t.same)))
	}

	return all
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
		before := t.records
		kind, err := t.record()
		if err == nil && kind == traceEnd {
			if t.ended = t.records > before; t.ended {
				err = t.behindEnd()
			}

			if err == nil {
				return io.EOF
			}

			return t.damage(err)
		}

		if err == nil {
			err = t.ordered(kind)
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

// behindEnd refuses records behind the end of a trace.
func (t *QueryTrace) behindEnd() error {
	if _, err := t.in.ReadByte(); err != io.EOF {
		return errors.New("records behind the end of the trace: these are several traces")
	}
	return nil
}

// ordered refuses a record that is older than the one before it: RocksDB takes the time and writes
// the record under one lock.
func (t *QueryTrace) ordered(kind byte) error {
	if kind == traceBegin {
		return errors.New("a second trace begins: import each by itself")
	}

	if t.time < t.beforeTime {
		return fmt.Errorf("%d us before the record before it: records have changed places, or the "+
			"clock was set back during the trace", t.beforeTime-t.time)
	}

	if t.time == t.beforeTime && bytes.Equal(t.payload, t.before) {
		t.same++
	}

	t.before, t.beforeTime = append(t.before[:0], t.payload...), t.time
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

	if len(f.Rest) > 0 {
		f.Fail("%d bytes behind its last field: several records in one", len(f.Rest))
	}

	return f.Err
}
