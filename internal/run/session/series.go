package session

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/internal/observe/host"
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
type Interval struct {
	phase       string
	began, last time.Time
	process     result.ProcessIO
}

// Interval begins at this moment; the line's time counts from the phase's beginning.
func (s *Session[C]) Interval(phase string) (*Interval, error) {
	process, err := host.ProcessNow()
	return &Interval{phase: phase, began: s.phaseBegan, last: time.Now(), process: process}, err
}

// Due reports whether it is time for a line.
func (i *Interval) Due(now time.Time) bool { return now.Sub(i.last) >= TickEvery }

// Seconds is how long the interval is.
func (i *Interval) Seconds(now time.Time) float64 { return now.Sub(i.last).Seconds() }

// TooShort reports whether a phase's last interval is too short for a rate.
func (i *Interval) TooShort(now time.Time) bool {
	return now.Sub(i.last) <= TickEvery/4 && now.Sub(i.began) >= TickEvery
}

// End is the line of the interval in which ops operations were done, and the
// process's counters in it. The next interval begins.
func (i *Interval) End(now time.Time, ops uint64) (result.Tick, result.ProcessIO, error) {
	process, err := host.ProcessNow()
	if err != nil {
		return result.Tick{}, process, err
	}
	spent := host.ProcessBetween(i.process, process)
	tick := result.Tick{Phase: i.phase, Seconds: now.Sub(i.began).Seconds(), Ops: ops, OpsPerSecond: float64(ops) / i.Seconds(now),
		DeviceReadBytes: spent.ReadBytes}
	i.last, i.process = now, process
	return tick, spent, nil
}
