package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// compared is a point of a study or of ours, in one table.
type compared struct {
	engine, by, pageCache string
	threads               int
	kops, cpu, mean       subject.Published
	failed                string
}

// published puts a sweep by threads next to the studies of its engines.
func (s *Sweep) published() (out []view.Block) {
	if varying := s.varied; !slices.Contains(varying, "threads") || !slices.Contains(varying, "engine") || s.along() != "threads" {
		return nil
	}
	for _, study := range subject.Studies() {
		rows := s.comparedWith(study)
		if len(rows) == 0 {
			continue
		}
		figure := func(name, unit string, of func(compared) subject.Published) view.Column[compared] {
			return view.Column[compared]{Name: name, Unit: unit, Words: func(c compared) string {
				p := of(c)
				if p.Unit == "" {
					return view.None
				}
				text := view.Number(p.Low)
				if p.High > p.Low {
					text += "-" + view.Number(p.High)
				}
				return text
			}}
		}
		out = append(out, view.Block{
			Title: fmt.Sprintf("Published %s and %s figures", study.Of[0], study.Of[1]), Method: "comparing-engines.md",
			Note: "Theirs were measured by others on another machine (" + study.What + "): compare the shape, not the size.",
			Table: view.TableOf(rows, func(c compared) string { return c.failed },
				view.Words("cache", func(c compared) string { return c.pageCache }),
				view.Column[compared]{Name: "threads", Key: true, Format: view.Digits, Value: func(c compared) *float64 { return view.Some(float64(c.threads)) }},
				view.Words("engine", func(c compared) string { return c.engine }), view.Words("by", func(c compared) string { return c.by }),
				figure("Kops", "/s", func(c compared) subject.Published { return c.kops }),
				figure("mean", "us", func(c compared) subject.Published { return c.mean }),
				figure("CPU", "%", func(c compared) subject.Published { return c.cpu }))})
	}
	return out
}

// family is what a study calls an engine with its profile.
func family(engine string) string {
	name, _, _ := strings.Cut(engine, ":")
	return subject.Family(name)
}

// comparedWith are our points and the study's by cache, threads and engine; none unless
// both of its engines are in the sweep.
func (s *Sweep) comparedWith(study subject.Study) (rows []compared) {
	found := map[string]bool{}
	ours := func(figure float64, unit string) subject.Published { return subject.Published{Low: figure, Unit: unit} }
	for _, p := range s.Points {
		name := s.entrant(p)
		if !slices.Contains(study.Of[:], family(name)) {
			continue
		}
		found[family(name)] = true
		row := compared{engine: name, by: "here", threads: p.threads(), failed: failure(p)}
		if study.ByCache {
			row.pageCache = p.pageCache()
		}
		if f := p.Figures; p.Status == result.OK {
			row.kops, row.cpu = ours(f.GetsPerSecond/1e3, "Kops/s"), ours(f.CPUPercent, "%")
			if f.ServiceNanos != nil {
				row.mean = ours(f.ServiceNanos.Mean/1e3, "us")
			}
		}
		rows = append(rows, row)
	}
	if len(found) < len(study.Of) {
		return nil
	}
	for _, p := range study.Points {
		rows = append(rows, compared{engine: p.Engine, by: "theirs", pageCache: p.PageCache, threads: p.Threads, kops: p.Kops, cpu: p.CPU, mean: p.Mean})
	}
	slices.SortStableFunc(rows, func(a, b compared) int {
		return cmp.Or(cmp.Compare(a.pageCache, b.pageCache), cmp.Compare(a.threads, b.threads), cmp.Compare(family(a.engine), family(b.engine)))
	})
	return rows
}

func (p Point) pageCache() string {
	if mode := p.Axes["page-cache"]; mode != "" || p.Run == nil {
		return mode
	}
	return p.Run.PageCache
}
