package lsmtail

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// Tail reads the records of a manifest or a write-ahead log while its owner goes on writing: what
// is not whole yet is read the next time. The form is that of LevelDB, RocksDB and Pebble, whose
// own readers cannot go on behind an end.
type Tail struct {
	File   *os.File // nil: closed
	Number uint32   // of the log: a file can be written over, and the rest of it is an older log's
	at     int64    // up to where it was read

	head   int // bytes in front of a piece: all pieces of a file are of one form
	block  []byte
	record []byte // so far
}

// Records lie in blocks, in pieces: a checksum, a length and a kind; then in logs the log's number,
// and since Pebble 2.1 how far the log is synced.
const (
	logBlockBytes   = 32 << 10
	pieceHeadBytes  = 7
	numberBytes     = 4
	syncedBytes     = 8
	pieceKinds      = 4 // whole, first, middle, last
	wholePiece      = 0
	firstPiece      = 1
	lastPiece       = 3
	maskedCRCRotate = 15
	maskedCRCDelta  = 0xa282ead8
)

// Read visits the records that have been written since. A record is valid until visit returns.
func (t *Tail) Read(visit func(record []byte) error) error {
	if t.block == nil {
		t.block = make([]byte, logBlockBytes)
	}

	for {
		start := t.at - t.at%logBlockBytes
		n, err := t.File.ReadAt(t.block, start)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}

		if err := t.readBlock(start, t.block[:n], visit); err != nil || t.at < start+logBlockBytes {
			return err
		}
	}
}

// Close closes the file, if it is open.
func (t *Tail) Close() error {
	if t.File == nil {
		return nil
	}
	err := t.File.Close()
	t.File, t.block, t.record = nil, nil, nil
	return err
}

// readBlock reads the rest of a block, as far as it is written.
func (t *Tail) readBlock(start int64, block []byte, visit func(record []byte) error) error {
	for {
		at := int(t.at - start)
		if logBlockBytes-at < pieceHeadBytes {
			t.at = start + logBlockBytes
			return nil
		}

		if len(block)-at < pieceHeadBytes {
			return nil
		}

		size, kind := int(binary.LittleEndian.Uint16(block[at+4:])), int(block[at+6])-1
		if kind < 0 {
			// Nothing, or the end of a block in which no piece has room.
			if len(block) == logBlockBytes && logBlockBytes-at < t.head {
				t.at = start + logBlockBytes
			}
			return nil
		}

		from := at + pieceHeadBytes
		switch kind / pieceKinds {
		case 0:
		case 1:
			from += numberBytes
		case 2:
			from += numberBytes + syncedBytes
		default:
			return nil // left by an older log
		}

		end := from + size
		if end > len(block) ||
			kind >= pieceKinds &&
				binary.LittleEndian.Uint32(block[at+pieceHeadBytes:]) != t.Number ||
			binary.LittleEndian.Uint32(block[at:]) != maskedCRC(block[at+6:end]) {
			return nil
		}

		kind, t.head = kind%pieceKinds, from-at
		if kind == wholePiece || kind == firstPiece {
			t.record = t.record[:0]
		}

		t.record = append(t.record, block[from:end]...)
		t.at = start + int64(end)
		if kind == wholePiece || kind == lastPiece {
			if err := visit(t.record); err != nil {
				return err
			}
		}
	}
}

func maskedCRC(of []byte) uint32 {
	c := crc32.Checksum(of, crc32.MakeTable(crc32.Castagnoli)) // made once by the library
	return (c>>maskedCRCRotate | c<<(32-maskedCRCRotate)) + maskedCRCDelta
}
