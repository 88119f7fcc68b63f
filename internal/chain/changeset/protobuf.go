package changeset

import (
	"fmt"
	"math"
)

// Two messages of two to eight scalar fields are all the protobuf there is here,
// and they are read in the loop that replaying waits for: they are decoded in
// place, by hand.

// maxMessageBytes bounds a message with one change.
const maxMessageBytes = MaxKeyBytes + MaxValueBytes + MaxNameBytes + 1<<10

// field is one field of a message: a number or bytes, by its wire type.
type field struct {
	number uint64
	value  uint64
	bytes  []byte // nil for a number
}

const (
	varintWire  = 0
	fixed64Wire = 1
	bytesWire   = 2
	fixed32Wire = 5
)

// cutField takes the first field off message.
func cutField(message []byte) (f field, rest []byte, err error) {
	tag, n := uvarint(message)
	if n <= 0 {
		return f, nil, badVarint(n)
	}
	if tag>>3 == 0 || tag > math.MaxUint32 {
		return f, nil, fmt.Errorf("a field numbered %d", tag>>3)
	}
	f.number, rest = tag>>3, message[n:]
	switch tag & 7 {
	case varintWire:
		if f.value, n = uvarint(rest); n <= 0 {
			return f, nil, badVarint(n)
		}
		return f, rest[n:], nil
	case bytesWire:
		length, n := uvarint(rest)
		if n <= 0 {
			return f, nil, badVarint(n)
		}
		if rest = rest[n:]; length > uint64(len(rest)) {
			return f, nil, fmt.Errorf("a field of %d bytes in the %d that are left of its message", length, len(rest))
		}
		f.bytes = rest[:length:length]
		return f, rest[length:], nil
	case fixed64Wire, fixed32Wire:
		width := 8
		if tag&7 == fixed32Wire {
			width = 4
		}
		if len(rest) < width {
			return f, nil, errShort
		}
		return f, rest[width:], nil
	}
	return f, nil, fmt.Errorf("field %d of wire type %d", f.number, tag&7)
}

// want reports a known field of the wrong wire type.
func (f field) want(isBytes bool) error {
	if isBytes != (f.bytes != nil) {
		return fmt.Errorf("field %d of an unexpected wire type", f.number)
	}
	return nil
}
