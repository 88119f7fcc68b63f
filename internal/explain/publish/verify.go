// Package publish makes results travel: it packs a folder of results with a checksum of
// every file, checks such a pack by computing its figures and its page again from the raw
// files, and lays many packs out as a static site that ranks by question.
//
// What a check proves: nothing in the pack changed since it was made, and no figure in it
// contradicts the counters, time series and histograms beside it. It does not prove that
// the measurement took place: whoever makes up raw files that agree passes.
//
// Non-goals: storing (a pack is a file), signing (a signature of the pack's checksum can
// travel beside it).
package publish

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/explain/paper"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Verdict is what a check found.
type Verdict struct {
	Packed bool `json:"packed"` // it has checksums
	Runs   int  `json:"runs"`   // whose figures were computed again
	kinds.Findings
	// PageNotCompared says why the page was not made again; "" if it was.
	PageNotCompared string `json:"page_not_compared,omitempty"`
}

// check collects what contradicts.
type check struct {
	kinds.Check
	verdict *Verdict
}

// Verify checks the results in dir. by is this program, as Pack was told.
func Verify(dir, by string) (*Verdict, error) {
	out := new(Verdict)
	c := &check{kinds.Check{Dir: dir, Runs: map[string]*result.Run{}, Findings: &out.Findings}, out}
	var err error
	if out.Packed, out.Problems, err = sums(dir); err != nil {
		return nil, err
	}

	paths, err := files(dir)
	if err != nil {
		return nil, err
	}

	if len(paths) == 0 {
		return nil, fmt.Errorf("%s holds no results", dir)
	}

	for _, path := range paths {
		folder, name := filepath.ToSlash(filepath.Dir(path)), filepath.Base(path)
		if name != result.RunFile {
			continue
		}

		run, err := result.ReadRun(filepath.Join(dir, filepath.FromSlash(folder)))
		if err != nil {
			c.Problem(path, "%v", err)
			continue
		}

		c.Runs[folder] = run
		c.run(folder, run)
	}

	for _, k := range kinds.All() {
		if k.Check == nil {
			continue
		}

		if err := k.Check(&c.Check); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Problem("summary", "%v", err)
		}
	}

	c.page(by)
	return out, nil
}

// run computes the figures of a run from its phases, its series and its histograms.
func (c *check) run(folder string, run *result.Run) {
	if run.Verb != "inspect" { // which looks at a database and measures nothing
		c.verdict.Runs++
	}

	where, f := folder+"/"+result.RunFile, run.Figures
	c.figures(where, run)
	ticks, err := result.ReadSeries(filepath.Join(c.Dir, filepath.FromSlash(folder)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Problem(folder, "%v", err)
	}

	if len(ticks) > 0 && f.State == nil {
		ops := map[string]uint64{}
		for _, t := range ticks {
			ops[t.Phase] += t.Ops
		}

		for _, p := range run.Phases {
			// The end of a phase that is shorter than a tick is in no line.
			if c.Figures++; ops[p.Name] > p.Ops {
				c.Problem(folder+"/"+result.SeriesFile,
					"%d operations of phase %s, and the run has %d", ops[p.Name], p.Name, p.Ops)
			}
		}
	}

	c.latencies(folder, run)
}

// recomputation is how a figure follows from the counters that are stored beside it.
type recomputation struct {
	of figure.Figure
	// from is the figure; ok is false where the counters of the run do not give it.
	from func(counters) (v float64, ok bool)
	// always: every version stores it, or a reason, where it has the counters.
	always bool
}

// recomputations are all. How far a stored figure may be off is declared with the figure.
func recomputations() []recomputation {
	gets := func(f figure.Figure, count func(counters) (n int64, ok bool)) recomputation {
		return recomputation{of: f, from: func(c counters) (float64, bool) {
			n, ok := count(c)

			return float64(n) / c.gets, ok && c.gets > 0
		}}
	}

	always := func(r recomputation) recomputation {
		r.always = true

		return r
	}

	blocks := func(part func(engine.Tally) int64) func(counters) (int64, bool) {
		return func(c counters) (int64, bool) { return part(c.blocks()), c.countsBlocks() }
	}
	process := func(part func(*result.ProcessIO) int64) func(counters) (int64, bool) {
		return func(c counters) (n int64, ok bool) {
			if c.measured.Process == nil {
				return 0, false
			}

			return part(c.measured.Process), true
		}
	}

	return []recomputation{
		gets(figure.BlockReadsPerGet, blocks(func(t engine.Tally) int64 { return t.Count })),
		gets(figure.BlockReadBytesPerGet, blocks(func(t engine.Tally) int64 { return t.Bytes })),
		gets(figure.DeviceReadsPerGet, func(c counters) (n int64, ok bool) {
			if c.measured.Device == nil {
				return 0, false
			}

			return c.measured.Device.Reads, true
		}),
		gets(figure.DeviceReadBytesPerGet, func(c counters) (n int64, ok bool) {
			if c.measured.Device != nil && c.measured.Process != nil {
				return c.measured.Device.ReadBytes, true
			}

			return process(func(io *result.ProcessIO) int64 { return io.ReadBytes })(c)
		}),
		{of: figure.Agreement, from: func(c counters) (float64, bool) {
			reads, blocks := c.run.Figures.OrZero(figure.DeviceReadsPerGet),
				c.run.Figures.OrZero(figure.BlockReadsPerGet)

			return reads / blocks, c.countsBlocks() && blocks > 0 &&
				c.run.Figures.Has(figure.DeviceReadsPerGet)
		}},
		{of: figure.GetsPerSecond, always: true, from: func(c counters) (float64, bool) {
			return c.gets / c.measured.Seconds, c.gets > 0 && c.measured.Seconds > 0
		}},
		always(gets(figure.CPUTimePerGet,
			process(func(io *result.ProcessIO) int64 { return io.UserNanos + io.SystemNanos }))),
		always(gets(figure.MajorFaultsPerGet,
			process(func(io *result.ProcessIO) int64 { return io.MajorFaults }))),
		always(gets(figure.ReadCallsPerGet,
			process(func(io *result.ProcessIO) int64 { return io.ReadCalls }))),

		{of: figure.LeavesPerSecond, always: true, from: func(c counters) (float64, bool) {
			r := c.run.Figures.Replay
			if r == nil {
				return 0, false
			}

			seconds := r.ApplySeconds + r.CommitSeconds

			return float64(r.Leaves) / seconds, seconds > 0
		}},
	}
}

// counters are what a run counted while it measured.
type counters struct {
	run      *result.Run
	measured result.Phase // zero of a run that measured no Gets of an engine
	gets     float64
}

func countersOf(run *result.Run) counters {
	c := counters{run: run}
	f := run.Figures
	i := slices.IndexFunc(run.Phases, func(p result.Phase) bool { return p.Name == "measure" })
	if i >= 0 && f.Gets > 0 && f.State == nil && f.Replay == nil {
		c.measured, c.gets = run.Phases[i], float64(f.Gets)
	}

	return c
}

// countsBlocks tells whether block reads were counted at the file layer.
func (c counters) countsBlocks() bool {
	return c.gets > 0 && c.run.Figures.BlockReadSource == "" &&
		c.run.Figures.Has(figure.BlockReadsPerGet)
}

// blocks are all block reads of the measured phase.
func (c counters) blocks() (total engine.Tally) {
	for _, t := range c.measured.Reads {
		total = total.Add(t)
	}

	return total
}

// figures computes the figures of a run again, from its counters.
func (c *check) figures(where string, run *result.Run) {
	counted, f := countersOf(run), run.Figures
	for _, r := range recomputations() {
		computed, ok := r.from(counted)
		stored, known := f.Number(r.of)
		switch {
		case ok && known:
			c.Figure(where, r.of, stored, computed)
		case ok && r.always && computed != 0 && f.Reason(r.of) == figure.NotRecorded:
			c.Problem(where, "%s is missing, and the raw files give %v", r.of.Key, computed)
		}
	}

	if counted.gets > 0 {
		c.Count(where, "gets", counted.gets, float64(f.Found+f.Missing+f.FailedGets))
	}

	if !counted.countsBlocks() {
		return
	}

	reads, levels := figure.BlockReadsPerGet, 0.0
	for kind, t := range counted.measured.Reads {
		c.Number(where, reads.ByType().Key+"."+kind, f.BlockReadsPerGetByType[kind],
			float64(t.Count)/counted.gets, reads.Tolerance)
	}

	for _, v := range f.BlockReadsPerGetByLevel {
		levels += v
	}

	c.Number(where, "sum of "+reads.ByLevel().Key, levels, f.OrZero(reads), 1e-6)
}

// outside is the comment of a histogram log on durations that the format cannot hold.
var outside = regexp.MustCompile(`Outside the range: Tag=(\S*) too_long=(\d+) negative=(\d+)`)

// resolution of an HdrHistogram with three digits.
const resolution = 1.0 / 1000

// latencies compares quantiles with those of the histograms in latency.hlog.
func (c *check) latencies(folder string, run *result.Run) {
	path := filepath.Join(c.Dir, filepath.FromSlash(folder), result.LatencyFile)
	text, err := os.ReadFile(path)
	where := folder + "/" + result.LatencyFile
	if err != nil {
		if run.Figures.ServiceNanos != nil && run.Status == result.OK {
			c.Problem(where, "missing, and the run has latencies")
		}
		return
	}

	missing := map[string]uint64{}
	for _, found := range outside.FindAllSubmatch(text, -1) {
		long, _ := strconv.ParseUint(string(found[2]), 10, 64)
		negative, _ := strconv.ParseUint(string(found[3]), 10, 64)
		missing[string(found[1])] += long + negative
	}

	all, err := engines.ReadLatencies(bytes.NewReader(text))
	if err != nil {
		c.Problem(where, "%v", err)
		return
	}

	commits := run.Figures.PutNanos
	if r := run.Figures.Replay; r != nil {
		commits = r.CommitNanos
	}

	stored := map[string]*result.Latency{
		"":         run.Figures.ServiceNanos,
		"response": run.Figures.ResponseNanos,
		"commit":   commits,
	}

	if s := run.Figures.State; s != nil {
		stored = map[string]*result.Latency{} // its tags name kinds and conditions
	}

	for _, tag := range slices.Sorted(maps.Keys(stored)) {
		l, h := stored[tag], all[tag]
		if l == nil || l.N == 0 {
			continue
		}

		if h == nil {
			c.Problem(folder, "%s is damaged: it holds no %s times", result.LatencyFile,
				cmp.Or(tag, "service"))
			continue
		}

		name := strings.TrimPrefix(tag+"_", "_")
		c.Count(where, name+"count", float64(l.N), float64(h.TotalCount())+float64(missing[tag]))
		if missing[tag] > 0 {
			continue // the histogram has not all
		}

		for _, q := range []struct {
			name  string
			at    float64
			value int64
		}{
			{"p50", 50, l.P50},
			{"p90", 90, l.P90},
			{"p99", 99, l.P99},
			{"p999", 99.9, l.P999},
			{"max", 100, l.Max},
		} {
			n := float64(h.TotalCount())
			// as of measure.Histogram; the library rounds to the nearest one
			rank := math.Ceil(q.at / 100 * n * (1 - 0x1p-51))
			c.Number(where, name+q.name, float64(q.value), float64(h.ValueAtQuantile(100*rank/n)),
				resolution)
		}

		c.Number(where, name+"mean", l.Mean, h.Mean(), resolution)
	}
}

// page makes the page again and compares it, if the same program made it.
func (c *check) page(by string) {
	if !c.verdict.Packed {
		c.verdict.PageNotCompared = "the folder was not packed by statelab pack create"
		return
	}

	made, err := os.ReadFile(filepath.Join(c.Dir, MadeBy))
	if err == nil && strings.TrimSpace(string(made)) != by {
		c.verdict.PageNotCompared = fmt.Sprintf("it was made by %q, and this is %q",
			strings.TrimSpace(string(made)), by)
	}

	stored, err2 := os.ReadFile(filepath.Join(c.Dir, result.ReportFile))
	if err = errors.Join(err, err2); err != nil {
		c.Problem(result.ReportFile, "%v", err)
	}

	if err != nil || c.verdict.PageNotCompared != "" {
		return
	}

	page, err := pageOf(c.Dir)
	if err != nil {
		c.Problem(result.ReportFile, "cannot be made again: %v", err)
	} else if !bytes.Equal(page, stored) {
		c.Problem(result.ReportFile, "it is not the page that these results give")
	}

	again, err := forPapers(c.Dir)
	if err != nil {
		c.Problem("files for papers", "cannot be made again: %v", err)
	}

	for _, file := range again {
		stored, err := os.ReadFile(filepath.Join(c.Dir, file.name))
		if err != nil {
			c.Problem(file.name, "%v", err)
		} else if !bytes.Equal(file.text, stored) {
			c.Problem(file.name, "it is not what these results give")
		}
	}
}

// Files of a pack beside those of the results. Sums is what sha256sum -c reads.
const (
	Sums   = "SHA256SUMS"
	MadeBy = "made-by.txt"
)

// Files of a pack for papers: the main chart with its caption, all figures as one table in long
// form, and BibTeX entries.
const (
	Figure   = "figure.svg"
	Caption  = "caption.txt"
	TidyCSV  = "figures.csv"
	Citation = "citation.bib"
)

// madeFile follows from the results.
type madeFile struct {
	name string
	text []byte
}

// forPapers makes the files for papers. Results without a chart have no picture, results without
// runs no table.
func forPapers(dir string) (all []madeFile, err error) {
	report, err := kinds.Open(dir)
	if err != nil {
		return nil, err
	}

	caption, err := paper.Caption(report, dir)
	if err != nil {
		return nil, err
	}

	for _, file := range []struct {
		name  string
		is    bool
		write func(io.Writer) error
	}{
		{Figure, paper.Chart(report) != nil, func(w io.Writer) error {
			return paper.Picture(w, report, caption)
		}},
		{Caption, paper.Chart(report) != nil, func(w io.Writer) error {
			_, err := io.WriteString(w, caption+"\n")
			return err
		}},
		{TidyCSV, paper.HasTable(dir), func(w io.Writer) error { return paper.TidyCSV(w, dir) }},
		{Citation, true, func(w io.Writer) error { return paper.BibTeX(w, dir) }},
	} {
		if !file.is {
			continue
		}

		var text bytes.Buffer
		if err := file.write(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", file.name, err)
		}

		all = append(all, madeFile{file.name, text.Bytes()})
	}

	return all, nil
}

// published are the files of results that a pack takes: nothing else, and no database.
func published() []string {
	return append(doc.Flat(kinds.All(), func(k kinds.Kind) []string { return k.Packed }),
		"experiment.yaml")
}

// maxFiles and maxBytes bound what is taken out of a pack.
const (
	maxFiles = 100_000
	maxBytes = 4 << 30
)

// Pack writes a pack of the results in dir: a zip file with one folder of that name. The
// page and the files for papers are made anew; by is the program that made it. Equal results give
// equal bytes.
func Pack(w io.Writer, dir, name, by string) error {
	page, err := pageOf(dir)
	if err != nil {
		return err
	}

	made, err := forPapers(dir)
	if err != nil {
		return err
	}

	paths, err := files(dir)
	if err != nil {
		return err
	}

	out, sums := zip.NewWriter(w), ""
	add := func(path string, text []byte) error {
		sum := sha256.Sum256(text)
		sums += hex.EncodeToString(sum[:]) + "  " + path + "\n"
		return store(out, name+"/"+path, text)
	}

	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			return err
		}

		if err := add(path, text); err != nil {
			return err
		}
	}

	for _, file := range made {
		if err := add(file.name, file.text); err != nil {
			return err
		}
	}

	return errors.Join(add(result.ReportFile, page), add(MadeBy, []byte(by+"\n")),
		store(out, name+"/"+Sums, []byte(sums)), out.Close())
}

func store(out *zip.Writer, path string, text []byte) error {
	f, err := out.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return err
}

// files are those of the results in dir, by their path with slashes. The separator behind dir makes
// a link be followed.
func files(dir string) (paths []string, err error) {
	taken := published()
	err = filepath.WalkDir(dir+string(filepath.Separator), func(
		path string, d fs.DirEntry, err error,
	) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains(taken, d.Name()) {
			return err
		}

		rel, err := filepath.Rel(dir, path)
		paths = append(paths, filepath.ToSlash(rel))
		return err
	})

	return paths, err
}

func pageOf(dir string) ([]byte, error) {
	found, err := kinds.Open(dir)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = render.Page(&out, found.Document())
	return out.Bytes(), err
}

// Check is Verify of a pack or a folder. The error says what contradicts, too, and then there is a
// verdict.
func Check(path, by string) (found *Verdict, err error) {
	dir, remove, err := Open(path)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, remove()) }()
	if found, err = Verify(dir, by); err != nil {
		return nil, err
	}

	return found, found.Passes(path)
}

// Open makes the results in a pack, or in a folder, readable at dir. remove gives back
// what was unpacked.
func Open(path string) (dir string, remove func() error, err error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return path, func() error { return nil }, err
	}

	in, err := zip.OpenReader(path)
	if err != nil {
		return "", nil, fmt.Errorf("%s is neither a folder of results nor a pack: %w", path, err)
	}

	defer in.Close() // nothing was written
	names, size := map[string]bool{}, uint64(0)
	for _, f := range in.File {
		top, _, _ := strings.Cut(f.Name, "/")
		names[top], size = true, size+min(maxBytes, f.UncompressedSize64)
		if !fs.ValidPath(strings.TrimSuffix(f.Name, "/")) {
			return "", nil, fmt.Errorf("%s is not a pack: the name %q leads out of it", path,
				f.Name)
		}

		if !f.Mode().IsRegular() && !f.Mode().IsDir() || len(in.File) > maxFiles ||
			size > maxBytes {
			return "", nil, fmt.Errorf("%s is not a pack: %s is not a file, or it holds more "+
				"than %d files or %d GiB", path, f.Name, maxFiles, maxBytes>>30)
		}
	}

	if len(names) != 1 {
		return "", nil, fmt.Errorf("%s is not a pack: it must hold one folder, and holds %d "+
			"files and folders", path, len(names))
	}

	into, err := os.MkdirTemp("", "statelab-pack")
	if err != nil {
		return "", nil, err
	}

	remove = func() error { return os.RemoveAll(into) }
	// The reader refuses more bytes than it was told.
	if err := os.CopyFS(into, in); err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s is damaged: %w", path, err), remove())
	}

	for top := range names {
		dir = filepath.Join(into, top)
	}

	// A folder may do without checksums. Where a pack has none, its list of files is damaged.
	if _, err := os.Stat(filepath.Join(dir, Sums)); err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s is damaged, or was not made by statelab pack "+
			"create: it has no %s", path, Sums), remove())
	}

	return dir, remove, nil
}

// sums checks the checksums of a folder that was packed. packed is false of a folder that
// has none.
func sums(dir string) (packed bool, problems []string, err error) {
	list, err := os.ReadFile(filepath.Join(dir, Sums))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}

	if err != nil {
		return false, nil, err
	}

	listed := map[string]bool{Sums: true}
	for line := range strings.Lines(string(list)) {
		line = strings.TrimRight(line, "\r\n")
		sum, path, ok := strings.Cut(line, "  ")
		if !ok || !filepath.IsLocal(filepath.FromSlash(path)) {
			return true, append(problems, fmt.Sprintf("%s: damaged line %.80q", Sums, line)), nil
		}

		listed[path] = true
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			problems = append(problems, path+": listed in "+Sums+" and missing")
			continue
		}

		if is := sha256.Sum256(text); hex.EncodeToString(is[:]) != sum {
			problems = append(problems, path+": its checksum is not the one in "+Sums)
		}
	}

	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		rel, err := filepath.Rel(dir, path)
		if rel = filepath.ToSlash(rel); !listed[rel] {
			problems = append(problems, rel+": not listed in "+Sums)
		}

		return err
	})

	return true, problems, err
}

// maxProblems are listed of results that do not pass.
const maxProblems = 20

// Passes is nil if nothing in the results at path contradicts itself, else it says what does.
func (v *Verdict) Passes(path string) error {
	if len(v.Problems) == 0 {
		return nil
	}

	list := v.Problems[:min(len(v.Problems), maxProblems)]
	more := ""
	if len(v.Problems) > len(list) {
		more = fmt.Sprintf("\n  and %d more", len(v.Problems)-len(list))
	}

	return fmt.Errorf("%s does not pass: %s\n  %s%s", path,
		unit.Plural(len(v.Problems), "contradiction"), strings.Join(list, "\n  "), more)
}

// String is what was checked.
func (v *Verdict) String() string {
	text := fmt.Sprintf("%s, %s computed again", unit.Plural(v.Runs, "run"),
		unit.Plural(v.Figures, "figure"))
	if v.PageNotCompared != "" {
		text += "\n  its page was not compared: " + v.PageNotCompared
	}
	return text
}
