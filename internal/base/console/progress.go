// Package console tells people how far the work is, on a terminal or in a log.
//
// Non-goals: results, which go to standard output; measuring (package timed).
package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

const (
	barAfter  = 2 * time.Second // shorter work needs no progress
	drawEvery = 100 * time.Millisecond
	firstLine = 10 * time.Second // without a terminal, then twice as long each time
	rarest    = 2 * time.Minute
)

// Options are what a progress does besides printing.
type Options struct {
	Quiet  bool      // print no progress; warnings are printed all the same
	Events io.Writer // gets events as JSON; nil: nothing does
	Live   Observer  // gets every event; nil: nothing does
}

// Observer takes what a progress tells.
type Observer interface {
	Observe(e result.Event)
	Run(n, total int) // which run of a plan is going on
}

// Progress tells how far the work is: one line that changes on a terminal, a line
// now and then elsewhere. It is safe for concurrent use.
type Progress struct {
	Options
	mutex  sync.Mutex
	out    io.Writer
	screen *os.File // nil: not a terminal
	now    func() time.Time
	beat   *time.Timer // draws while no event comes

	event                *result.Event // the last; nil: nothing is going on
	label, phase         string
	left                 time.Duration // of all the work, at the last event; 0: not known
	told                 time.Time     // when the last event came
	offset               uint64        // what was done when the phase began
	began, phased, shown time.Time     // the work, its phase, the last line
	pause                time.Duration
	isDrawn              bool
}

// New returns a progress that prints to stderr.
func New(stderr io.Writer, o Options) *Progress {
	p := &Progress{Options: o, out: Plain{stderr}, now: time.Now, pause: firstLine}
	if inner, is := stderr.(Plain); is {
		p.out, stderr = inner, inner.Writer
	}
	if f, is := stderr.(*os.File); is && term.IsTerminal(int(f.Fd())) {
		p.screen = f
	}
	return p
}

// Step shows an event of run n of total, which label names. All runs are expected to take so long
// from now on; 0: that is not known.
func (p *Progress) Step(label string, n, total int, left time.Duration, e result.Event) {
	if p.Live != nil {
		p.Live.Run(n, total)
	}
	p.report(label, left, e)
}

// Report shows an event of the work called label.
func (p *Progress) Report(label string, e result.Event) { p.report(label, 0, e) }

func (p *Progress) report(label string, left time.Duration, e result.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.Live != nil {
		p.Live.Observe(e)
	}

	now := p.now()
	if p.Events != nil && (e.Phase != p.phase || now.Sub(p.shown) >= time.Second) {
		p.phase, p.shown = e.Phase, now
		e.Tick = nil
		if text, err := json.Marshal(e); err == nil {
			fmt.Fprintf(p.Events, "%s\n", text)
		}
	}

	if p.Quiet {
		return
	}

	if p.event == nil {
		p.beat = time.AfterFunc(time.Second, p.again)
	}

	if p.began.IsZero() {
		p.began, p.shown = now, now
	}

	if p.event == nil || label != p.label || e.Phase != p.phase {
		p.label, p.phase, p.phased, p.offset = label, e.Phase, now, e.Done
	}

	p.event, p.left, p.told = &e, left, now
	p.show(now)
}

// again shows the last event once more: its time goes on.
func (p *Progress) again() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.event != nil {
		p.show(p.now())
		p.beat.Reset(time.Second)
	}
}

func (p *Progress) show(now time.Time) {
	switch {
	case now.Sub(p.began) < barAfter:
	case p.screen == nil:
		if now.Sub(p.shown) >= p.pause {
			p.shown, p.pause = now, min(2*p.pause, rarest)
			fmt.Fprintln(p.out, p.line(now))
		}
	case !p.isDrawn || now.Sub(p.shown) >= drawEvery:
		width := Columns(p.screen)
		line := []rune(cleaned(p.line(now)))
		p.shown, p.isDrawn = now, true
		fmt.Fprint(p.screen, "\r\x1b[K"+string(line[:min(len(line), width-1)]))
	}
}

// line is the phase, how much of it is done, how fast, and how long it will take.
func (p *Progress) line(now time.Time) string {
	e, took := p.event, now.Sub(p.phased)
	text := p.label
	if left := p.left - now.Sub(p.told); left > 0 {
		text += ", about " + unit.Roughly(left.Seconds()) + " left"
	}

	if text != "" {
		text += ": "
	}

	text += e.Phase
	if e.Done > 0 {
		text += " " + unit.Count(e.Done)
		if e.Total > 0 {
			text += " of " + unit.Count(e.Total)
		}
		text += " " + e.Unit
	}

	if rate := float64(e.Done-min(e.Done, p.offset)) / took.Seconds(); took >= time.Second &&
		rate > 0 {
		text += ", " + rateOf(rate, e.Unit)
		if e.Total > e.Done {
			left := min(float64(e.Total-e.Done)/rate, 1e9)
			text += ", ETA " + time.Duration(left*float64(time.Second)).Round(time.Second).String()
		}
	} else {
		text += ", " + took.Round(time.Second).String()
	}

	if e.Note != "" {
		text += ": " + e.Note
	}

	return text
}

func rateOf(perSecond float64, what string) string {
	for _, per := range []struct {
		seconds float64
		name    string
	}{{1, "s"}, {60, "min"}} {
		if perSecond*per.seconds >= 1 {
			return unit.ShortCount(perSecond*per.seconds) + " " + what + "/" + per.name
		}
	}

	return unit.ShortCount(perSecond*3600) + " " + what + "/h"
}

// Done ends what Tell began.
func (p *Progress) Done() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.clear()
}

func (p *Progress) clear() {
	if p.beat != nil {
		p.beat.Stop()
	}
	if p.event = nil; p.isDrawn {
		fmt.Fprint(p.screen, "\r\x1b[K")
		p.isDrawn = false
	}
}

// Printf prints what --quiet hides.
func (p *Progress) Printf(format string, args ...any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.clear()
	if !p.Quiet {
		fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// Warn prints warnings, each once; --quiet does not hide them.
func (p *Progress) Warn(warnings ...engine.Warning) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.clear()
	seen := map[engine.Warning]bool{}
	for _, w := range warnings {
		if seen[w] {
			continue
		}

		seen[w] = true
		fmt.Fprintln(p.out, "warning:", w.Text)
		if w.Remedy != "" {
			fmt.Fprintln(p.out, "         remedy:", w.Remedy)
		}
	}
}

// Plain keeps escape sequences, which names in files may hold, from a terminal.
type Plain struct{ io.Writer }

// Columns is the width of the terminal that w writes to; 80, that of a terminal nobody has
// resized, if it is none.
func Columns(w io.Writer) int {
	const usual, minimum = 80, 2
	if plain, is := w.(Plain); is {
		w = plain.Writer
	}

	screen, is := w.(*os.File)
	if !is {
		return usual
	}

	width, _, err := term.GetSize(int(screen.Fd()))
	if err != nil || width < minimum {
		return usual
	}

	return width
}

// Write implements io.Writer.
func (p Plain) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, cleaned(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func cleaned(text string) string { return control.ReplaceAllString(text, "") }

// control matches escape sequences, then every control character but tab and
// newline.
var control = regexp.MustCompile("\x1b\\[[0-?]*[ " +
	"-/]*[@-~]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)|[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f]")
