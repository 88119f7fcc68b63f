// Package host knows the machine under a measurement: what the kernel counts
// for this process and its block devices, what the page cache holds, which facts
// can move a number, and what would spoil one.
//
// Goals: every figure names its source; what cannot be measured here is an error
// with words, never a zero.
// Non-goals: the engine's own counters (package blockio and the adapters), and
// kernels other than Linux.
package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"

	"github.com/statelab/statelab/internal/report/doc"
)

// Version of statelab where no tag names it; CHANGELOG.md tells what moved a number in it.
const Version = "0.3.0"

// Device is the block device under a directory.
type Device struct {
	Name string // as in /sys/class/block: "nvme0n1p2", "loop0"
	Loop bool
	// Private says that Name is a loop device with nothing on it but the one
	// mount that holds the directory: its counters are those of whoever uses
	// that mount. Other mount namespaces cannot be seen from here.
	Private bool
	Backing string // file behind a loop device
}

// OwnReads are read calls that a process makes to watch itself: the kernel's account of the process
// has them, and a measurement is to leave them out.
type OwnReads struct{ begun, calls, chars atomic.Int64 }

// Call makes one, and counts it with the characters that it read.
func (o *OwnReads) Call(read func() (chars int64)) {
	o.begun.Add(1)
	o.chars.Add(read())
	o.calls.Add(1)
}

// Now is how many there were, and their characters. One that has begun and not ended is not
// settled: the kernel may have counted it.
func (o *OwnReads) Now() (calls, chars int64, settled bool) {
	calls, chars = o.calls.Load(), o.chars.Load()
	return calls, chars, o.begun.Load() == calls
}

// Between is what was counted after before and up to after. C is a struct of counters: whole
// numbers, or pointers to those that may be unknown.
func Between[C any](before, after C) C { return plus(after, -1, before) }

// Sum adds two counts, of one device.
func Sum[C any](a, b C) C { return plus(a, 1, b) }

// plus adds times b to a, in every field that is a whole number or points to one; what one
// of them does not know stays unknown.
func plus[C any](a C, times int64, b C) C {
	to, from := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range to.NumField() {
		switch field := to.Field(i); {
		case field.CanInt():
			field.SetInt(field.Int() + times*from.Field(i).Int())
		case field.Type() != reflect.TypeFor[*int64]():
		case field.IsNil() || from.Field(i).IsNil():
			field.SetZero()
		default:
			field.Set(reflect.ValueOf(new(field.Elem().Int() + times*from.Field(i).Elem().Int())))
		}
	}

	return a
}

// Existing is the nearest folder above dir that exists: dir may be made later.
func Existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// Verdict says how much a finding matters.
type Verdict string

// Verdicts, the best first.
const (
	OK      Verdict = "ok"      // nothing distorts figures
	Doubt   Verdict = "doubt"   // some figures need care
	Problem Verdict = "problem" // some figures are wrong or cannot be had
)

// Finding is one thing about this machine that a measurement depends on.
type Finding struct {
	Name    string  `json:"name"`
	State   string  `json:"state"` // what is
	Verdict Verdict `json:"verdict"`
	Spoils  string  `json:"spoils,omitempty"` // what it would do to which figures
	Remedy  string  `json:"remedy,omitempty"`
}

// DiskPlan says how the disk's own limit is measured.
type DiskPlan struct {
	Dir      string
	InFlight []int // ascending
	Seconds  float64
	Repeats  int
	Fio      bool // also ask fio, in turns, where it is on PATH
}

// ProbePoint is what the disk gives to a number of readers that each wait for
// one read at a time.
type ProbePoint struct {
	InFlight       int     `json:"in_flight"`
	Reads          uint64  `json:"reads"`
	Seconds        float64 `json:"seconds"`
	ReadsPerSecond float64 `json:"reads_per_second"`
	MeanNanos      float64 `json:"mean_ns"`
	P99Nanos       int64   `json:"p99_ns"`
}

// FilesIn is what the files below dir hold, and how many they are, without write-ahead logs, which
// no cache holds a part of; those that vanish meanwhile do not count.
func FilesIn(dir string) (bytes int64, files int) {
	walk := func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(entry.Name()) == ".log" {
			return nil
		}

		if info, err := entry.Info(); err == nil {
			bytes, files = bytes+info.Size(), files+1
		}

		return nil
	}

	if filepath.WalkDir(dir, walk) != nil {
		return 0, 0
	}

	return bytes, files
}

// Document says what was found at a place: every check with its verdict, and what a doubt or a
// problem would do to the figures.
func Document(where string, findings []Finding) *doc.Document {
	doubts := doc.Where(findings, func(f Finding) bool { return f.Verdict != OK })
	d := &doc.Document{Title: "What distorts measurements on this machine"}
	d.Answer("", fmt.Sprintf("%d of %d checks found something that affects measurements in %s.",
		len(doubts), len(findings), where))

	d.Warnings = doc.Each(doubts, func(f Finding) doc.Warning {
		return doc.Warning{Text: f.Name + " affects " + f.Spoils, Remedy: f.Remedy}
	})

	d.Add("Checks", doc.Block{Title: "Checks", Table: doc.TableOf(findings, nil,
		doc.Words("verdict", func(f Finding) string { return string(f.Verdict) }),
		doc.Words("check", func(f Finding) string { return f.Name }),
		doc.Words("found", func(f Finding) string { return f.State }))})

	return d
}
