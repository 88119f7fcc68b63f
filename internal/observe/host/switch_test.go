//go:build linux

package host

import "testing"

func TestSwitchNanos(t *testing.T) {
	ns, err := SwitchNanos()
	if err != nil {
		t.Fatal(err)
	}
	if ns <= 0 {
		t.Errorf("a context switch takes %v ns", ns)
	}
	t.Logf("%.0f ns", ns)
}
