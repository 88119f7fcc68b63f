package report

// comparedEngines are the figures of a sweep that is about engines, threads or
// handles: the charts, then what a Get takes of the machine.
func (s *Sweep) comparedEngines() []figure {
	var out []figure
	for _, a := range s.arenas() {
		of := ""
		if a.label != "" {
			of = ": " + a.label
		}
		if f, ok := a.loadFigure(); ok {
			f.title += of
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
			out = append(out, figure{title: "Speed by engine" + of, note: note, method: "engines.md", pic: a.enginesChart(), table: a.speedTable()})
		} else {
			out = append(out, figure{title: "Speed by " + a.along + of, method: "engines.md", table: a.speedTable(), open: true})
		}
		out = append(out, figure{title: "What a Get takes" + of, note: a.pagesNote(), method: "engines.md", table: a.efficiencyTable(), open: true})
		if t := a.handlesTable(); len(t.Rows) > 0 {
			out = append(out, figure{title: "What a closed table costs" + of, note: a.missSentence(), method: "engines.md", table: t, open: true})
		}
	}
	if t := s.arenas()[0].entrantTable(); len(t.Rows) > 0 {
		out = append(out, figure{title: "The engines, their memory, what survives", note: "Survives: what a kill of the process and a power cut leave of acknowledged writes. Memory: how the budget was spent.", method: "engines.md", table: t, open: true})
	}
	return append(out, s.besidePublished()...)
}

// chart is the picture that stands for an arena; nil leaves it to the reads.
func (a arena) chart() *picture {
	if f, ok := a.loadFigure(); ok {
		return f.pic
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
