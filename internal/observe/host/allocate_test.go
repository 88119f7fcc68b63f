//go:build linux

package host

import "testing"

func TestAllocations(t *testing.T) {
	a, err := Allocations()
	if err != nil {
		t.Fatal(err)
	}

	// A buffer that is kept costs no system call, a new mapping two of them.
	if a.Bytes != 128<<10 || a.ReusedNanos <= 0 || a.HeapNanos <= 0 ||
		a.MappedNanos <= a.ReusedNanos || a.TouchedNanos <= 0 {
		t.Errorf("allocations take %+v", a)
	}

	t.Logf("%+v", a)
}
