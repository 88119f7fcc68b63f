package session

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/result"
)

// TickEvery is how often a line is added to the series.
const TickEvery = time.Second

// series is series.jsonl, a line at a time, so that a kill loses a second.
type series struct {
	file  *os.File
	lines *bufio.Writer
}

// OpenSeries begins series.jsonl. A run that continues an earlier one appends.
func (s *Session[C]) OpenSeries(continues bool) error {
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if continues {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	f, err := os.OpenFile(filepath.Join(s.out, result.SeriesFile), mode, 0o644)
	if err != nil {
		return fmt.Errorf("open the series: %w", err)
	}
	s.series = &series{f, bufio.NewWriter(f)}
	return nil
}

// WriteTick adds a line to the series.
func (s *Session[C]) WriteTick(t result.Tick) error {
	if err := errors.Join(json.NewEncoder(s.series.lines).Encode(t), s.series.lines.Flush()); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	return nil
}

func (s *series) close() error { return s.file.Close() }

// Interval is the part of a phase that the next line of the series is of.
type Interval[C any] struct {
	session *Session[C]
	phase   string
	began   time.Time
	last    Snapshot[C]
	done    uint64 // operations before it
}

// Interval begins at this moment; the line's time counts from the phase's beginning.
func (s *Session[C]) Interval(phase string) (*Interval[C], error) {
	now, err := s.Snapshot()
	return &Interval[C]{session: s, phase: phase, began: s.phaseBegan, last: now}, err
}

// Due reports whether it is time for a line.
func (i *Interval[C]) Due(now time.Time) bool { return now.Sub(i.last.at) >= TickEvery }

// TooShort reports whether a phase's last interval is too short for a rate.
func (i *Interval[C]) TooShort() bool {
	return time.Since(i.last.at) <= TickEvery/4 && time.Since(i.began) >= TickEvery
}

// End is the line of the interval in which ops operations were done, and what it cost.
// The next interval begins.
func (i *Interval[C]) End(ops uint64) (result.Tick, Cost[C], error) {
	cost, err := i.Cut()
	if err != nil {
		return result.Tick{}, cost, err
	}
	return i.Tick(ops, cost), cost, nil
}

// Cut ends the interval, begins the next one, and returns what the ended one cost.
func (i *Interval[C]) Cut() (Cost[C], error) {
	now, err := i.session.Snapshot()
	if err != nil {
		return Cost[C]{}, err
	}
	cost := i.session.cost(i.last, now)
	i.last = now
	return cost, nil
}

// Tick is the line of the interval that was cut last, in which ops operations were done.
func (i *Interval[C]) Tick(ops uint64, cost Cost[C]) result.Tick {
	return result.Tick{Phase: i.phase, Seconds: i.last.at.Sub(i.began).Seconds(), Ops: ops, OpsPerSecond: float64(ops) / cost.Seconds,
		DeviceReadBytes: cost.Process.ReadBytes}
}

// Progress writes a line where it is time for one, and at the end of the work unless
// that is too short for a rate. done are the operations since the first interval began.
func (i *Interval[C]) Progress(done uint64, ended bool) error {
	if !i.Due(time.Now()) && (!ended || i.TooShort()) {
		return nil
	}
	tick, _, err := i.End(done - i.done)
	if err != nil {
		return err
	}
	i.done = done
	return i.session.WriteTick(tick)
}
