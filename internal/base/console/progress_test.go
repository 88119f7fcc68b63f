package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// watched is a progress without a terminal, on a clock of its own.
func watched(quiet bool) (p *Progress, out *strings.Builder, pass func(time.Duration)) {
	out = new(strings.Builder)
	now := time.Unix(1e9, 0)
	p = New(out, Options{Quiet: quiet})
	p.now = func() time.Time { return now }
	return p, out, func(d time.Duration) { now = now.Add(d) }
}

func TestProgressTellsRateAndWhenItEnds(t *testing.T) {
	p, out, pass := watched(false)
	for n := range uint64(41) { // 40 s, 1,000 Gets each
		p.Report("run 1 of 2", result.Event{
			Phase: "measure",
			Done:  5000 + n*1000,
			Total: 50_000,
			Unit:  "Gets",
		})

		pass(time.Second)
	}

	p.Report("run 2 of 2", result.Event{Phase: "settle"})
	pass(time.Minute)
	p.Report("run 2 of 2", result.Event{Phase: "settle", Note: "2 jobs"})
	p.Done()
	want := `run 1 of 2: measure 15,000 of 50,000 Gets, 1k Gets/s, ETA 35s
run 1 of 2: measure 35,000 of 50,000 Gets, 1k Gets/s, ETA 15s
run 2 of 2: settle, 1m0s: 2 jobs
`

	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
}

// TestTimeLeftGoesOn: also while no event comes, and a label with another time begins no new rate.
func TestTimeLeftGoesOn(t *testing.T) {
	p, out, pass := watched(false)
	for n := range uint64(3) {
		p.Step("run 1 of 2", 1, 2, time.Duration(95-10*n)*time.Second,
			result.Event{Phase: "build", Done: 1 + n, Unit: "blocks"})
		pass(10 * time.Second)
	}

	p.again()
	pass(100 * time.Second)
	p.again()
	p.Done()
	want := `run 1 of 2, about 85 s left: build 2 blocks, 6 blocks/min
run 1 of 2, about 65 s left: build 3 blocks, 4 blocks/min
run 1 of 2: build 3 blocks, 55.4 blocks/h
`

	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
}

func TestProgressLinesBecomeRarer(t *testing.T) {
	p, out, pass := watched(false)
	for n := range uint64(3600) { // phases that are short do not keep it silent
		p.Report("", result.Event{Phase: fmt.Sprint("phase ", n%2), Done: n, Unit: "runs"})
		pass(time.Second)
	}
	if lines := strings.Count(out.String(), "\n"); lines < 20 || lines > 40 {
		t.Errorf("%d lines in an hour:\n%s", lines, out)
	}
}

func TestQuietHidesProgressButNoWarning(t *testing.T) {
	p, out, pass := watched(true)
	for range 100 {
		p.Report("", result.Event{Phase: "measure"})
		pass(time.Minute)
	}

	p.Printf("run folder: R")
	doubt := engine.Warning{
		Code:   "budget",
		Text:   "the page cache is not limited",
		Remedy: "run as root",
	}

	p.Warn(doubt, doubt)
	const want = "warning: the page cache is not limited\n         remedy: run as root\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

func TestSlowRatesAreReadable(t *testing.T) {
	for perSecond, want := range map[float64]string{
		41_200: "41.2k points/s",
		0.5:    "30 points/min",
		0.001:  "3.6 points/h",
	} {
		if got := rateOf(perSecond, "points"); got != want {
			t.Errorf("%v: %s, want %s", perSecond, got, want)
		}
	}
}

func TestEscapeSequencesDoNotReachTheTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31mred\x1b[0m\n":       "ared\n",
		"\x1b]0;title\x07b":           "b",
		"c\x1b]8;;http://x\x1b\\link": "clink",
		"d\x1b\r\x7f\u009b1m\te":      "d1m\te",
		"größe 3 µs":                  "größe 3 µs",
	} {
		var out strings.Builder
		n, err := fmt.Fprint(Plain{&out}, text)
		if err != nil || n != len(text) || out.String() != want {
			t.Errorf("%q became %q (%d, %v), want %q", text, &out, n, err, want)
		}
	}
}
