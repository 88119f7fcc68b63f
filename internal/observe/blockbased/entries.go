package blockbased

import (
	"bytes"
	"errors"

	"github.com/statelab/statelab/engine"
)

// EachEntry visits the newest entry of each key of a table in dir, in the order of keys. key and
// value are valid until visit returns. Refused is a table whose entries say more than that a key
// has a value or is deleted.
func EachEntry(
	dir string, facts Facts, r *Reading, visit func(key, value []byte, deleted bool) error,
) (err error) {
	t, err := openTable(dir, facts, r)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, t.Opened.Close()) }()
	refused := engine.Fail(engine.CodeUnsupported,
		"table %06d has merges, values with columns or in other files, or deletions of ranges of "+
			"keys, which are not rewritten", t.File)
	if t.deletesRanges {
		return refused
	}

	var in buffer
	var last []byte // key
	first := true
	for _, at := range t.Data {
		err := t.eachRow(at, &in, func(key, value []byte) error {
			if len(key) < 8 {
				return t.Damaged(at, "damaged key")
			}

			user := key[:len(key)-8]
			if !first && bytes.Equal(user, last) {
				return nil // an older version
			}

			first, last = false, append(last[:0], user...)
			switch byte(le64(key[len(user):])) {
			case kindValue:
				return visit(user, value, false)
			case kindDelete, kindSingleDelete:
				return visit(user, nil, true)
			}

			return refused
		})
		if err != nil {
			return err
		}
	}

	return nil
}
