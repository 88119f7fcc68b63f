package engines

import (
	"github.com/statelab/statelab/internal/explain/view"
)

// comparedEngines are the figures of a sweep that is about engines, threads or
// handles: the charts, then what a Get takes of the machine.
func (s *Sweep) comparedEngines() []view.Figure {
	var out []view.Figure
	for _, a := range s.arenas() {
		of := ""
		if a.label != "" {
			of = ": " + a.label
		}
		if f, ok := a.loadFigure(); ok {
			f.Title += of
			out = append(out, f)
		} else if a.rivals() {
			note := "A group of bars for each value of " + a.along + ", a bar an engine; a cross where a point failed."
			if a.along == "" {
				note = "A bar an engine; a cross where a point failed."
			}
			if a.repeats() > 1 {
				note += " A thin line spans the repeats."
			}
			if a.along == "threads" {
				note += " Black: ideal, the speed with the fewest threads, scaled."
			}
			if s.Disk != nil {
				note += " Dashed red: what the disk leaves (its reads a second at that number in flight / device reads per Get), where device reads are known and the limit is near enough to be seen."
			}
			out = append(out, view.Figure{Title: "Speed by engine" + of, Note: note, Method: "engines.md", Pic: a.enginesChart(), Table: a.speedTable()})
		} else {
			out = append(out, view.Figure{Title: "Speed by " + a.along + of, Method: "engines.md", Table: a.speedTable(), Open: true})
		}
		out = append(out, view.Figure{Title: "What a Get takes" + of, Note: a.pagesNote(), Method: "engines.md", Table: a.efficiencyTable(), Open: true})
		if t := a.handlesTable(); len(t.Rows) > 0 {
			out = append(out, view.Figure{Title: "What a closed table costs" + of, Note: a.missSentence(), Method: "engines.md", Table: t, Open: true})
		}
	}
	if t := s.arenas()[0].entrantTable(); len(t.Rows) > 0 {
		out = append(out, view.Figure{Title: "The engines, their memory, what survives", Note: "Survives: what a kill of the process and a power cut leave of acknowledged writes. Memory: how the budget was spent.", Method: "engines.md", Table: t, Open: true})
	}
	return append(out, s.besidePublished()...)
}

// chart is the picture that stands for an arena; nil leaves it to the reads.
func (a arena) chart() *view.Picture {
	if f, ok := a.loadFigure(); ok {
		return f.Pic
	}
	if a.rivals() {
		return a.enginesChart()
	}
	return nil
}

func (a arena) repeats() int {
	most := 0
	for _, p := range a.pts {
		most = max(most, len(p.Runs))
	}
	return most
}
