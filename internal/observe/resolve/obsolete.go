package resolve

import (
	"encoding/binary"
	"errors"
)

// obsoleteProperty reads the block property by which Pebble marks blocks
// without a single visible entry.
type obsoleteProperty struct {
	known   bool
	id      byte
	ofTable bool
}

func newObsoleteProperty(user map[string]string) (obsoleteProperty, error) {
	value, known := user["obsolete-key"]
	if !known {
		return obsoleteProperty{}, nil
	}
	if value == "" {
		return obsoleteProperty{}, errors.New("empty property obsolete-key")
	}
	return obsoleteProperty{true, value[0], value[1:] == "t"}, nil
}

// of finds the property among those of an index entry: id, length, value, in
// the order of ids, empty ones left out.
func (o obsoleteProperty) of(properties []byte) (obsolete bool, err error) {
	for len(properties) > 0 {
		id := properties[0]
		length, width := binary.Uvarint(properties[1:])
		if width <= 0 || length > uint64(len(properties)-1-width) {
			return false, errors.New("damaged block properties")
		}

		value := properties[1+width:][:length]
		if o.known && id == o.id {
			return string(value) == "t", nil
		}

		properties = properties[1+width+int(length):]
	}

	return false, nil
}
