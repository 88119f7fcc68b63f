package tuned

import (
	"strings"
	"testing"
)

// No prediction is further off than the answer says.
func TestTheErrorIsRoundedUp(t *testing.T) {
	tuning := Tuning{
		Goal:     "reads",
		Verified: []Verification{{Predicted: 1, Measured: 1}, {Predicted: 0.7902, Measured: 1}},
	}
	if got := tuning.proved(); !strings.Contains(got, "within 21.0% of") {
		t.Error(got)
	}
}
