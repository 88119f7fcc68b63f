package pebbledb

import (
	"errors"
	"testing"
)

// refusing is a batch whose commit fails.
type refusing struct{ err error }

func (refusing) Set(_, _ []byte, _ *int) error         { return nil }
func (refusing) Delete([]byte, *int) error             { return nil }
func (refusing) DeleteRange(_, _ []byte, _ *int) error { return nil }
func (b refusing) Commit(*int) error                   { return b.err }
func (refusing) Empty() bool                           { return false }
func (refusing) Count() uint32                         { return 1 }
func (refusing) Reset()                                {}
func (refusing) Close() error                          { return nil }

// TestFailedCommitIsToldToAll: later commits wait for ever, so that whoever waits must be told.
func TestFailedCommitIsToldToAll(t *testing.T) {
	failure := errors.New("input/output error")
	d := &DB{live: &live{events: newEvents()}}
	w := NewWriter(d, refusing{failure}, new(int))
	if err := d.BackgroundError(); err != nil {
		t.Fatal(err)
	}

	if err := w.Commit(); !errors.Is(err, failure) {
		t.Error(err)
	}

	if err := d.BackgroundError(); !errors.Is(err, failure) {
		t.Error(err)
	}
}
