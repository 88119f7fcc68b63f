//go:build linux

package host

import "testing"

func TestSwitchNanos(t *testing.T) {
	ns, err := SwitchNanos()
	if err != nil {
		t.Fatal(err)
	}
	// From a tenth of a microsecond on bare metal to tens of them on a busy VM.
	if ns <= 0 || ns > 100_000 {
		t.Errorf("a context switch takes %v ns", ns)
	}
	t.Logf("%.0f ns", ns)
}
