package kvlog

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/statelab/statelab/engine"
)

// A log of go-ethereum as the authors of "An Analysis of Ethereum Workloads from a Key-Value
// Storage Perspective" have patched it (tinoryj/EthAnalysis, go-ethereum 1.14.11:
// common/globalTraceLog.go, ethdb/pebble/pebble.go, core/blockchain.go) has a line for each call of
// its store, in the order of the calls, and one where a block begins and ends. Behind its head,
// "geth: 2025/02/11 19:18:38 globalTraceLog.go:30: ", it says:
//
//	Processing block (start), ID: 20500000, hash: 0x..
//	OPType: Get, key: 4f02.., size: 37
//	OPType: BatchPut, key: 41.., size: 5, value: f8.., size: 83
//
// It does not tell whether a Get found its key.

const (
	operation, blockMark = "OPType: ", "Processing block ("
	maxHeadBytes         = 200 // before either
)

// logged are the operations of such a log. What is behind the name: k a key, v a value, n a size, s
// where a scan begins, r a range. Those of no kind change and read nothing.
var logged = map[string]struct {
	kind Kind
	rest string
}{
	"Get":               {Get, "k"},
	"Has":               {Has, "k"},
	"Put":               {Put, "kv"},
	"Delete":            {Delete, "k"},
	"BatchPut":          {BatchPut, "kv"},
	"BatchDelete":       {BatchDelete, "k"},
	"BatchPutCommit":    {Commit, ""},
	"NewIterator":       {Scan, "s"},
	"IteratorNext":      {Next, ""},
	"NewBatch":          {},
	"NewBatchWithSize":  {0, "n"},
	"GetBatchValueSize": {0, "n"},
	"Compact":           {0, "r"},
}

// remarks are lines that say nothing of the store.
var remarks = []string{"Global log file opened successfully", "Closing database"}

// GethLog reads such a log.
type GethLog struct {
	name   string
	in     *bufio.Reader
	line   uint64
	text   []byte // of the line, without the digits of its value
	digits uint64 // of these
	key    []byte
	other  []byte
	checks gethChecks
}

// NewGethLog reads a log, whose errors name it name.
func NewGethLog(in *bufio.Reader, name string) *GethLog { return &GethLog{name: name, in: in} }

// Info implements Source.
func (l *GethLog) Info() Info {
	return Info{Form: "log of go-ethereum's calls of its store", Client: "geth",
		NotChecked: []string{"this log numbers neither its lines nor its calls, and does not " +
			"count them: a call that is missing, there twice or moved within a second cannot be " +
			"seen"}}
}

// Doubts implements Doubtful.
func (l *GethLog) Doubts() []string { return l.checks.doubts() }

// Close implements Source.
func (l *GethLog) Close() error { return nil }

var errShort = errors.New("it ends early")

// Next implements Source.
func (l *GethLog) Next(op *Op) error {
	for {
		err := l.read()
		if err == io.EOF {
			l.checks.ended = true
			return io.EOF
		}

		known := false
		if err == nil {
			known, err = l.parse(op)
		}

		if err != nil {
			return engine.Fail(engine.CodeDamaged, "%s: line %d: %w", l.name, l.line, err).
				WithRemedy(
					"import what is before it (head -n %d LOG | statelab accesses import --from "+
						"geth-log - --out FILE), or fetch the log again", l.line-1)
		}

		if known {
			return nil
		}
	}
}

var valueMark = []byte(", value: ")

// read reads a line. Of a value, which can have hundreds of megabytes, only the number of its
// digits is kept.
func (l *GethLog) read() error {
	l.text, l.digits = l.text[:0], 0
	inValue, begun := false, false
	for {
		part, err := l.in.ReadSlice('\n')
		if len(part) > 0 && !begun {
			begun = true
			l.line++
		}

		if at := bytes.Index(part, valueMark); at >= 0 && len(l.text) == 0 {
			inValue = true
			l.text, part = append(l.text, part[:at+len(valueMark)]...), part[at+len(valueMark):]
		}

		if inValue {
			n := hexDigits(part)
			l.digits, part = l.digits+uint64(n), part[n:]
			inValue = len(part) == 0
		}

		if len(l.text)+len(part) > 4*MaxKeyBytes {
			return errors.New("it is too long for an operation")
		}

		l.text = append(l.text, part...)
		switch {
		case err == nil:
			l.text = l.text[:len(l.text)-1]
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && begun:
			return errShort
		case errors.Is(err, io.ErrUnexpectedEOF):
			if !begun {
				l.line++
			}
			return errors.New("the compressed file ends early")
		default:
			return err
		}
	}
}

// parse makes an operation of the line, or says that it is none.
func (l *GethLog) parse(op *Op) (is bool, err error) {
	head := l.text[:min(len(l.text), maxHeadBytes)]
	l.checks.time(head, l.line)
	if at := bytes.Index(head, []byte(operation)); at >= 0 {
		return l.operation(op, cursor{rest: l.text[at+len(operation):]})
	}

	if at := bytes.Index(head, []byte(blockMark)); at >= 0 {
		c := cursor{rest: l.text[at+len(blockMark):]}
		starts := c.has("start")
		if !starts {
			c.expect("end")
		}

		c.expect("), ID: ")
		*op = Op{Kind: Block, Number: c.number()}
		c.expect(", hash: 0x")
		l.other = c.hex(l.other[:0])
		if err := c.end(); err != nil {
			return starts, err
		}

		return starts, l.checks.mark(starts, op.Number, l.other, l.line)
	}

	for _, remark := range remarks {
		if bytes.HasSuffix(head, []byte(remark)) {
			return false, nil
		}
	}

	return false, fmt.Errorf("%.120q is not a line of such a log", head)
}

func (l *GethLog) operation(op *Op, c cursor) (is bool, err error) {
	name, rest, more := bytes.Cut(c.rest, []byte(","))
	form, known := logged[string(name)]
	if !known {
		return false, fmt.Errorf("unknown operation %.60q", name)
	}

	c.rest = rest
	if more != (form.rest != "") {
		return false, errShort
	}

	*op = Op{Kind: form.kind}
	for _, field := range form.rest {
		switch field {
		case 'k':
			c.expect(" key: ")
			l.key = c.hex(l.key[:0])
			c.expect(", size: ")
			if size := c.number(); c.err == nil && size != uint64(len(l.key)) {
				return false, fmt.Errorf("its key has %d bytes, and its size says %d", len(l.key),
					size)
			}
			op.Key = l.key
		case 'v':
			c.expect(", value: ")
			c.expect(", size: ")
			op.Number = c.number()
			if c.err == nil && l.digits != 2*op.Number {
				return false, fmt.Errorf("its value has %d hexadecimal digits, and its size says "+
					"%d bytes", l.digits, op.Number)
			}
		case 'n':
			c.expect(" size: ")
			c.number()
		case 's':
			c.expect(" prefix: ")
			l.key = c.hex(l.key[:0])
			c.expect(", start key: ")
			l.key = c.hex(l.key)
			op.Key = l.key
		case 'r':
			c.expect(" start key: ")
			l.other = c.hex(l.other[:0])
			c.expect(", end key: ")
			l.other = c.hex(l.other[:0])
		}
	}

	if err := c.end(); err != nil {
		return false, err
	}

	switch {
	case len(op.Key) > MaxKeyBytes:
		return false, fmt.Errorf("a key of %d bytes", len(op.Key))
	case op.Kind != Block && op.Number > MaxValueBytes:
		return false, fmt.Errorf("a value of %d bytes", op.Number)
	}

	return form.kind != 0, nil
}

// cursor goes through a line. After an error it stays where it is.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) has(text string) bool {
	rest, has := bytes.CutPrefix(c.rest, []byte(text))
	if has {
		c.rest = rest
	}
	return has
}

func (c *cursor) expect(text string) {
	if c.err == nil && !c.has(text) {
		c.err = c.wrong(strconv.Quote(text))
	}
}

func (c *cursor) wrong(want string) error {
	if len(c.rest) == 0 {
		return errShort
	}
	return fmt.Errorf("%s is expected, and %.40q found", want, c.rest)
}

func (c *cursor) end() error {
	if c.err == nil && len(c.rest) > 0 {
		return c.wrong("the end of the line")
	}
	return c.err
}

func (c *cursor) number() (n uint64) {
	digits := 0
	for digits < len(c.rest) && c.rest[digits] >= '0' && c.rest[digits] <= '9' {
		digits++
	}

	if c.err != nil {
		return 0
	}

	n, err := strconv.ParseUint(string(c.rest[:digits]), 10, 64)
	if err != nil {
		c.err = c.wrong("a number")
		return 0
	}

	c.rest = c.rest[digits:]
	return n
}

// hex appends what hexadecimal digits say.
func (c *cursor) hex(to []byte) []byte {
	if c.err != nil {
		return to
	}

	n := hexDigits(c.rest)
	to, err := hex.AppendDecode(to, c.rest[:n])
	if err != nil {
		c.err = fmt.Errorf("an odd number of hexadecimal digits (%d)", n)
	}

	c.rest = c.rest[n:]
	return to
}

// hexDigits is how many hexadecimal digits text begins with.
func hexDigits(text []byte) int {
	for i, b := range text {
		if (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return i
		}
	}
	return len(text)
}
