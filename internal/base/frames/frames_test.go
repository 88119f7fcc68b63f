package frames

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestOpenChecksItsBytes: no bit of a frame can differ without an error that says so.
func TestOpenChecksItsBytes(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}

	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}

	defer decoder.Close()
	raw := bytes.Repeat([]byte("statelab "), 20)
	frame := Append(nil, encoder, 'd', raw)
	open := func(frame []byte) ([]byte, error) {
		head := Head(frame[:HeadBytes])
		return head.Open(frame[HeadBytes:], nil, decoder)
	}

	if got, err := open(frame); err != nil || !bytes.Equal(got, raw) {
		t.Fatalf("%q, %v", got, err)
	}

	for bit := range 8 * len(frame) {
		flipped := bytes.Clone(frame)
		flipped[bit/8] ^= 1 << (bit % 8)
		if got, err := open(flipped); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("bit %d: %q, %v", bit, got, err)
		}
	}
}
