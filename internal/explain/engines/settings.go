package engines

import (
	"fmt"
	"math"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// settings are what a reader must know to judge the figures, in few words.
func (s *Sweep) settings() [][2]string {
	run := s.firstRun()
	if run == nil {
		return [][2]string{{"source", s.Source}}
	}
	w := run.Workload
	varies := map[string]bool{}
	for _, axis := range s.varying() {
		varies[axis] = true
	}
	say := func(axis, value string) string {
		if !varies[axis] {
			return value
		}
		for _, a := range s.Axes {
			if a.Name == axis {
				return strings.Join(a.Values, ", ")
			}
		}
		return value
	}
	engine := say("engine", run.Engine.Name)
	if !varies["engine"] {
		engine += " " + run.Engine.Version
	}
	profile, database := say("profile", run.Engine.Profile), view.SizeOf(s.Database.Bytes)
	if varies["engine"] { // each has its own
		database = ""
		for _, p := range s.Points {
			if p.Run != nil && p.Run.Engine.Profile != profile && !varies["profile"] {
				profile = ""
			}
		}
	}
	list := [][2]string{
		{"engine", engine},
		{"profile", profile},
		{"workload", w.Name},
		{"keys", say("keys", unit.ShortCount(float64(w.Keys)))},
		{"key, value", strings.TrimSpace(fmt.Sprintf("%d B, %s B %s", w.KeyBytes, unit.Significant(w.ValueBytes, 3), w.ValueModel))},
		{"database", database},
		{"Gets", getsText(w)},
		{"threads", say("threads", fmt.Sprint(w.Threads))},
		{"page cache", say("page-cache", run.PageCache)},
	}
	if why := run.Absent["seed"]; why != "" {
		list = append(list, [2]string{"seed", "not recorded"})
	} else {
		list = append(list, [2]string{"seed", fmt.Sprint(w.Seed)})
	}
	if h := run.Figures.HarnessNanosPerGet; h != nil {
		list = append(list, [2]string{"harness floor", unit.Nanos(*h) + " per Get"})
	}
	if n := s.repeats(); n > 1 {
		list = append(list, [2]string{"repeats", fmt.Sprint(n)})
	}
	list = append(list, [2]string{"source", s.Source})
	if !s.Started.IsZero() {
		list = append(list, [2]string{"measured", s.Started.UTC().Format("2006-01-02 15:04 UTC")})
	}
	var known [][2]string
	for _, kv := range list {
		if kv[1] != "" {
			known = append(known, kv)
		}
	}
	return known
}

func getsText(w result.Workload) string {
	if w.Gets == 0 {
		return ""
	}
	return unit.ShortCount(float64(w.Gets)) + " after " + unit.ShortCount(float64(w.WarmupGets)) + " to warm up"
}

// firstRun is the first run that can be read, measured ones before failed ones.
func (s *Sweep) firstRun() *result.Run {
	var any *result.Run
	for _, p := range s.Points {
		if p.Run != nil && p.Status == result.OK {
			return p.Run
		}
		if any == nil {
			any = p.Run
		}
	}
	return any
}

func (s *Sweep) repeats() int {
	n := math.MaxInt
	for _, p := range s.Points {
		if p.Status == result.OK {
			n = min(n, len(p.Runs))
		}
	}
	if n == math.MaxInt {
		return 0
	}
	return n
}
