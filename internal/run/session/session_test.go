package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

func begin(t *testing.T, tell result.EventFunc) *Session[int] {
	t.Helper()
	run := &result.Run{Schema: schema.Run, Absent: map[string]string{},
		Warnings: []engine.Warning{}}
	count := 0
	return Begin(run, t.TempDir(), t.TempDir(), tell, Subject[int]{
		Now:     func() *int { count++; now := count; return &now },
		Between: func(before, after int) int { return after - before },
		Note:    func(c int, p *result.Phase) { p.Engine = map[string]int64{"looks": int64(c)} },
	})
}

// TestCountersThatFailAreToldInTheirPhase: before or after the work.
func TestCountersThatFailAreToldInTheirPhase(t *testing.T) {
	for _, before := range []bool{true, false} {
		s := begin(t, func(result.Event) {})
		s.Device = host.Device{}
		lost := func() { s.Device = host.Device{Name: "nothing0", Private: true} }
		if _, err := s.Phase("prepare", func(*atomic.Uint64) error { return nil }); err != nil {
			t.Fatal(err)
		}

		if before {
			lost()
		}

		worked := false
		_, err := s.Phase("measure", func(ops *atomic.Uint64) error {
			worked = true
			ops.Add(7)
			lost()
			return nil
		})

		if err == nil ||
			!strings.HasPrefix(err.Error(),
				"measure: read the counters of block device nothing0") ||
			worked == before {
			t.Errorf("before %v: %v", before, err)
		}

		last := s.Result.Phases[len(s.Result.Phases)-1]
		if last.Name != "measure" || last.Process != nil || !before && last.Ops != 7 {
			t.Errorf("%+v", last)
		}

		run, _ := s.End(context.Background(), err, "")
		if run.Status != result.Failed || run.Error != err.Error() {
			t.Errorf("%s: %s", run.Status, run.Error)
		}
	}
}

func TestLookingAtCountersIsNotCounted(t *testing.T) {
	s := begin(t, func(result.Event) {})
	cost, err := s.Phase("prepare", func(*atomic.Uint64) error {
		for range 50 {
			if _, err := s.Snapshot(); err != nil {
				return err
			}
		}

		return nil
	})

	if err != nil || cost.Process.ReadCalls > 20 {
		t.Errorf("%+v, %v", cost.Process, err)
	}

	// Nor is watching the process meanwhile.
	cost, err = s.Phase("measure", func(*atomic.Uint64) error {
		for range 50 {
			s.OwnRead(readItself)
		}
		return nil
	})

	if err != nil || cost.Process.ReadCalls > 20 || cost.Process.ReadChars > 20_000 {
		t.Errorf("%+v, %v", cost.Process, err)
	}
}

func readItself() (chars int64) {
	_, chars, _ = host.AnonymousBytes()
	return chars
}

// TestNoReadIsTakenOffTwice: a look at the counters is interrupted after any of its steps by reads
// of the harness's own, as on a machine where many wait for a processor.
func TestNoReadIsTakenOffTwice(t *testing.T) {
	s := begin(t, func(result.Event) {})
	if _, err := s.Phase("prepare", func(*atomic.Uint64) error { return nil }); err != nil {
		t.Fatal(err)
	}

	var done atomic.Bool
	var watching sync.WaitGroup
	watching.Go(func() {
		for !done.Load() {
			s.OwnRead(readItself)
			time.Sleep(200 * time.Microsecond)
		}
	})

	minimum, maximum := int64(0), int64(0)
	for range 3000 {
		cost, err := s.Between(func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}

		minimum, maximum = min(minimum, cost.Process.ReadCalls),
			max(maximum, cost.Process.ReadCalls)
	}

	done.Store(true)
	watching.Wait()
	if minimum < 0 || maximum > 20 {
		t.Errorf("from %d to %d read calls of nothing", minimum, maximum)
	}
}

// TestUnsettledCountersAreToldOf: a read of the harness's own that does not end leaves no moment at
// which the counters and what is to be taken off them agree.
func TestUnsettledCountersAreToldOf(t *testing.T) {
	const unsettled = "counters_unsettled"
	s := begin(t, func(result.Event) {})
	s.patience = time.Millisecond
	told := func() bool {
		return slices.ContainsFunc(s.Result.Warnings, func(w engine.Warning) bool {
			return w.Code == unsettled
		})
	}

	if _, err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}

	if s.warnOfUnsettled(); told() {
		t.Errorf("nothing else was read: %+v", s.Result.Warnings)
	}

	begun, end := make(chan struct{}), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		s.OwnRead(func() int64 { close(begun); <-end; return 0 })
	})
	<-begun
	if _, err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}

	close(end)
	reading.Wait()

	if run, err := s.End(context.Background(), nil, ""); err != nil || !told() {
		t.Errorf("%+v, %v", run.Warnings, err)
	}
}

func TestStatus(t *testing.T) {
	stop, wrong := errors.New("signal: terminated"), errors.New("wrong answer")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	for _, c := range []struct {
		ctx          context.Context
		err          error
		status, says string
	}{
		{ctx, nil, result.OK, ""},
		{ctx, stop, result.Interrupted, interrupted},
		{ctx, errors.Join(stop, nil), result.Interrupted, interrupted},
		{ctx, errors.Join(stop, errors.New("close: lock lost")), result.Interrupted,
			interrupted + " (and close: lock lost)"},
		{ctx, OnDisk(errors.Join(stop, errors.New("close: lock lost")), t.TempDir(), ""),
			result.Interrupted, interrupted + " (and close: lock lost)"},
		{ctx, wrong, result.Failed, "wrong answer"},
		{context.Background(), stop, result.Failed, "signal: terminated"},
	} {
		status, says, why := status(c.ctx, c.err)
		if status != c.status || says != c.says ||
			(why.Code == engine.CodeInterrupted) != (status == result.Interrupted) {
			t.Errorf("%v: %s, %q, %q", c.err, status, says, why.Code)
		}
	}
}

func TestAWarningIsToldOnce(t *testing.T) {
	s := begin(t, func(result.Event) {})
	s.Result.Warnings = nil
	for range 3 {
		s.Warn(engine.Warning{Code: "a"}, engine.Warning{Code: "b"})
	}
	if len(s.Result.Warnings) != 2 {
		t.Errorf("%v", s.Result.Warnings)
	}
}

// TestOnDisk: /proc is a file system without a free block.
func TestOnDisk(t *testing.T) {
	for _, c := range []struct {
		dir, text string
		code      engine.Code
	}{
		{t.TempDir(), "write 000007.log: no space left on device", engine.CodeDiskFull},
		{"/proc/none/here", "mdb_txn_commit: Input/output error", engine.CodeDiskFull},
		{"/proc", "key not found", ""},
		{t.TempDir(), "read 000007.sst: input/output error", engine.CodeIO},
	} {
		if f := OnDisk(errors.New(c.text), c.dir, "load less"); f.Code != c.code ||
			(f.Remedy == "load less") != (c.code == engine.CodeDiskFull) {
			t.Errorf("%s, %q: %q, %q", c.dir, c.text, f.Code, f.Remedy)
		}
	}
}
