package blockbased

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
)

// errCut is the end of a log in the middle of a record; errBroken is a record without an end that
// others follow.
var (
	errCut    = errors.New("it ends in the middle of a record")
	errBroken = fmt.Errorf("a record has no end: %w", errCut)
)

// Types of the pieces that a record of a log is cut into. Behind recyclable ones stands the number
// of the log: a file may be written over.
const (
	wholePiece      = 1
	firstPiece      = 2
	middlePiece     = 3
	lastPiece       = 4
	recyclableShift = 4 // the recyclable ones are as much higher
	compressedLog   = 9
	timestampSizes  = 10
	recycledSizes   = 11
	ignorablePieces = 128 // and above
)

const (
	logBlockBytes  = 32 << 10
	pieceHeadBytes = 7
)

// eachRecord visits the records of a log: of a manifest or of a write-ahead log with this number.
// What was written over an older log ends at the older log's records.
func eachRecord(log []byte, number uint64, visit func(record []byte) error) error {
	var record []byte
	inside, recycled := false, false
	// What an older log has left need not begin where a record ends.
	damaged := func(why string) error {
		if recycled {
			return errCut
		}
		return errors.New(why)
	}

	for at := 0; at < len(log); {
		left := logBlockBytes - at%logBlockBytes
		if left < pieceHeadBytes {
			at += left
			continue
		}

		if len(log)-at < pieceHeadBytes {
			return errCut
		}

		head := log[at : at+pieceHeadBytes]
		size, kind := int(binary.LittleEndian.Uint16(head[4:])), head[6]
		if kind == 0 && size == 0 { // preallocated
			if inside {
				return errCut
			}
			at += left
			continue
		}

		from := at + pieceHeadBytes
		isRecyclable := kind > lastPiece && kind <= lastPiece+recyclableShift ||
			kind == recycledSizes
		if isRecyclable {
			from += 4
		}

		end := at + pieceHeadBytes + size
		if isRecyclable {
			end += 4
		}

		if end > at+left {
			return damaged("a record is longer than its block")
		}

		if end > len(log) {
			return errCut
		}

		if isRecyclable && le32(log[at+pieceHeadBytes:]) != uint32(number) {
			return nil // the rest is of the log that was here before
		}

		if le32(head) != maskedCRC(log[at+6:end]) {
			return damaged("the checksum of a record does not match")
		}

		recycled = recycled || isRecyclable
		piece := log[from:end]
		if isRecyclable && kind != recycledSizes {
			kind -= recyclableShift
		}

		switch kind {
		case wholePiece, firstPiece:
			if inside {
				return errBroken
			}
			record, inside = append(record[:0], piece...), kind == firstPiece
		case middlePiece, lastPiece:
			if !inside {
				return errors.New("a record has no beginning")
			}
			record, inside = append(record, piece...), kind == middlePiece
		case compressedLog:
			return engine.Fail(engine.CodeUnsupported,
				"its records are compressed, which is not supported")
		case timestampSizes, recycledSizes:
			return errors.New("its keys have timestamps of the user, which are not supported")
		default:
			if kind < ignorablePieces {
				return errors.New("it has records of an unknown type")
			}
			at = end
			continue
		}

		at = end
		if !inside {
			if err := visit(record); err != nil {
				return err
			}
		}
	}

	if inside {
		return errCut
	}

	return nil
}
