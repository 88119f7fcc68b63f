package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/run/bench"
)

const (
	barAfter  = 2 * time.Second // shorter work needs no bar
	lineEvery = 15 * time.Second
)

// progress draws events: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	mutex    sync.Mutex
	out      io.Writer
	quiet    bool
	terminal bool
	bar      *progressbar.ProgressBar
	phase    string
	began    time.Time
	lined    time.Time
}

func (a *app) progress(quiet bool) *progress {
	f, isFile := a.stderr.(*os.File)
	return &progress{out: a.stderr, quiet: quiet, terminal: isFile && term.IsTerminal(int(f.Fd()))}
}

// tell shows an event of the work called label.
func (p *progress) tell(label string, e bench.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.quiet {
		return
	}
	if phase := label + e.Phase; phase != p.phase {
		p.clear()
		p.phase, p.began, p.lined = phase, time.Now(), time.Now()
	}
	if time.Since(p.began) < barAfter {
		return
	}
	if p.terminal {
		p.drawBar(label, e)
		return
	}
	if time.Since(p.lined) >= lineEvery {
		p.lined = time.Now()
		fmt.Fprintln(p.out, p.line(label, e))
	}
}

func (p *progress) line(label string, e bench.Event) string {
	text := label + e.Phase
	if e.Done > 0 {
		text += " " + unit.Count(e.Done)
		if e.Total > 0 {
			text += " of " + unit.Count(e.Total)
		}
		text += " " + e.Unit
	}
	if e.Note != "" {
		text += ": " + e.Note
	}
	return text
}

func (p *progress) drawBar(label string, e bench.Event) {
	if p.bar == nil {
		total := int64(-1) // a spinner
		if e.Total > 0 {
			total = int64(e.Total)
		}
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.out), progressbar.OptionSetWidth(24),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	text := label + e.Phase
	if e.Note != "" {
		text += ": " + e.Note
	}
	p.bar.Describe(text)
	if err := p.bar.Set64(int64(min(e.Done, max(e.Total, e.Done)))); err != nil {
		p.bar = nil // a bar that cannot be drawn is not worth a failed run
	}
}

func (p *progress) clear() {
	if p.bar != nil {
		if err := p.bar.Clear(); err != nil {
			p.quiet = true
		}
		p.bar = nil
	}
}

// say prints a line of the conversation.
func (p *progress) say(format string, args ...any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.clear()
	if !p.quiet {
		fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// warn prints a warning, also where progress is not wanted.
func (p *progress) warn(w engine.Warning) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "warning: %s\n", w.Text)
	if w.Remedy != "" {
		fmt.Fprintf(p.out, "         remedy: %s\n", w.Remedy)
	}
}
