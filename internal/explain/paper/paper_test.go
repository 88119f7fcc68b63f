package paper

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Stored folders of results, of every kind that a pack takes.
const (
	stored     = "../kinds/testdata/"
	sweep      = stored + "0.1.0/sweep" // two caches, two repeats of each
	layouts    = stored + "0.1.0/layouts"
	replay     = stored + "0.1.0/replay"
	imported   = stored + "0.1.0/imported"
	failed     = stored + "stored/failed"
	advice     = stored + "stored/advice"
	prediction = stored + "stored/prediction"
	watch      = stored + "stored/watch"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// table is the table in long form as a program reads it: cells by column.
func table(t *testing.T, dirs ...string) (rows []row) {
	t.Helper()
	var out bytes.Buffer
	must(t, TidyCSV(&out, dirs...))
	records, err := csv.NewReader(&out).ReadAll() // which checks that all rows have as many cells
	must(t, err)
	if heads := records[0]; len(heads) != len(doc.Distinct(heads, strings.Clone)) {
		t.Errorf("columns of one name: %q", heads)
	}

	for _, record := range records[1:] {
		r := row{}
		for i, cell := range record {
			r[records[0][i]] = cell
		}

		rows = append(rows, r)
	}

	return rows
}

// find are the rows of a figure, or of a part of it, by the run that stands for the point.
func find(rows []row, key, part string) map[string]row {
	found := map[string]row{}
	for _, r := range rows {
		if r["figure"] == key && r["part"] == part {
			found[r["run"]] = r
		}
	}

	return found
}

func number(t *testing.T, r row, column string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(r[column], 64)
	if err != nil {
		t.Errorf("%s of %s in %s is %q", column, r["figure"], r["run"], r[column])
	}

	return v
}

// TestTableHasEveryFigure: all numbers and reasons of the runs that stand for the points, under
// their keys and in their units, with the ranges that the summary has.
func TestTableHasEveryFigure(t *testing.T) {
	rows := table(t, sweep)
	summary, err := result.ReadSweep(sweep)
	must(t, err)

	for _, point := range summary.Points {
		run := point.Of
		for key, v := range run.Figures.Numbers() {
			r := find(rows, key, "")[point.Run]
			if r == nil || number(t, r, "value") != v {
				t.Errorf("%s of %s is %v, and the table has %v", key, point.Run, v, r["value"])
			}
		}

		for kind, v := range run.Figures.BlockReadsPerGetByType {
			r := find(rows, figure.BlockReadsPerGet.ByType().Key, kind)[point.Run]
			if number(t, r, "value") != v {
				t.Errorf("reads of %s are %v, not %s", kind, v, r["value"])
			}
		}

		p99 := find(rows, figure.ServiceTime.Key, "p99")[point.Run]
		if number(t, p99, "value") != float64(run.Figures.ServiceNanos.P99) || p99["unit"] != "ns" {
			t.Errorf("p99 is %s %s", p99["value"], p99["unit"])
		}

		for key, all := range point.Spread {
			r := find(rows, key, "")[point.Run]
			if number(t, r, "low") != all.Low || number(t, r, "high") != all.High ||
				r["interval"] != ofRepeats {
				t.Errorf("%s is from %s to %s, not %v", key, r["low"], r["high"], all)
			}
		}

		for key, reason := range run.Reasons() {
			if _, is := figure.Stored(key); is && find(rows, key, "")[point.Run]["unavailable"] !=
				reason {
				t.Errorf("%s of %s is unavailable without a reason", key, point.Run)
			}
		}
	}

	for _, r := range rows {
		f, is := figure.Stored(r["figure"])
		if !is || r["unit"] != string(f.Unit) {
			t.Errorf("%s in %q is not in the registry", r["figure"], r["unit"])
		}

		if r["axis.cache"] == "" || r["workload.seed"] != "1" || r["engine.name"] != "pebble1" ||
			r["repeats"] != "2" || r["status"] != result.OK {
			t.Errorf("a row lacks axes or settings: %v", r)
		}
	}
}

// TestTableHasWhatReportsShow: the values are those of the report's own table.
func TestTableHasWhatReportsShow(t *testing.T) {
	rows := table(t, sweep)
	report, err := kinds.Open(sweep)
	must(t, err)
	shown := report.Document().Sections[0].Blocks[0].Table
	summary, err := result.ReadSweep(sweep)
	must(t, err)

	for _, f := range []figure.Figure{figure.BlockReadsPerGet, figure.GetsPerSecond,
		figure.DeviceReadsPerGet} {
		column := slices.IndexFunc(shown.Heads, func(h doc.Head) bool {
			return h.Name == f.Name && h.Unit == f.Per
		})
		if column < 0 {
			t.Fatalf("the report has no column %s %s", f.Name, f.Per)
		}

		for i, point := range summary.Points {
			v := number(t, find(rows, f.Key, "")[point.Run], "value")
			if in := shown.Rows[i].Values[column]; in == nil || *in != v {
				t.Errorf("%s of %s is %v, and the report shows %v", f.Key, point.Run, v, in)
			}
		}
	}
}

// TestTableOfOtherKinds: lookups of layouts and what built them, trees, watched processes, and
// points without figures.
func TestTableOfOtherKinds(t *testing.T) {
	rows := table(t, layouts)
	built := find(rows, figure.UpdateTime.Key, "updates")["runs/pagetrie-2000-build"]
	if built == nil || built["axis.layout"] != "pagetrie" || built["value"] != "43978.41" {
		t.Errorf("the updates of a layout are %v", built)
	}

	looked := find(rows, figure.NodesPerLookup.Key, "account, first, 1 in flight")
	if r := looked["runs/pagetrie-2000-lookup"]; r["value"] != "4.4" {
		t.Errorf("the lookups of a layout are %v", r)
	}

	if len(find(table(t, replay), figure.LeavesPerSecond.Key, "")) != 1 {
		t.Error("no leaves per second of a tree")
	}

	without := false
	for _, r := range table(t, failed) {
		without = without || r["status"] == result.Failed && r["value"] == "" &&
			r["unavailable"] != ""
	}

	if !without {
		t.Error("a point that failed has no row with its error")
	}

	for _, r := range table(t, sweep, imported) {
		if r[folderColumn] != "sweep" && r[folderColumn] != "imported" {
			t.Fatalf("of folder %q", r[folderColumn])
		}
	}

	if err := TidyCSV(io.Discard, prediction); err == nil {
		t.Error("a prediction has no runs, and a table")
	}
}

// TestErrorsAreIntervals: a figure with an error and without repeats has an interval around it.
func TestErrorsAreIntervals(t *testing.T) {
	dir, reads := t.TempDir(), figure.BlockReadsPerGet
	run := &result.Run{Status: result.OK, Verb: "read"}
	run.Figures.Record(reads, 2)
	run.Figures.Record(reads.Error(), .25)
	must(t, result.WriteRun(dir, run))

	r := find(table(t, dir), reads.Key, "")["."]
	if r["low"] != "1.75" || r["high"] != "2.25" || r["interval"] != ofError {
		t.Errorf("%v", r)
	}

	if r := find(table(t, dir), reads.Error().Key, "")["."]; r["low"] != "" || r["interval"] != "" {
		t.Errorf("an error has an interval: %v", r)
	}
}

// entries are those of a bibliography, by key: fields by name.
func entries(t *testing.T, dirs ...string) map[string]map[string]string {
	t.Helper()
	var out bytes.Buffer
	must(t, BibTeX(&out, dirs...))
	found := map[string]map[string]string{}
	text := out.String()
	for _, entry := range regexp.MustCompile(`(?ms)^@misc\{([a-z0-9-]+),\n(.*?)\n\}$`).
		FindAllStringSubmatch(text, -1) {
		fields := map[string]string{}
		for line := range strings.Lines(entry[2] + ",\n") {
			name, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
			value, ends := strings.CutSuffix(value, "},")
			value, begins := strings.CutPrefix(value, "{")
			if !ok || !begins || !ends && !strings.HasSuffix(value, "}") {
				t.Errorf("not a field: %q", line)
			}

			// As BibTeX counts them: each brace, also one behind a backslash.
			depth := 0
			for _, c := range value {
				depth += map[rune]int{'{': 1, '}': -1}[c]
				if depth < 0 {
					break
				}
			}

			if depth != 0 {
				t.Errorf("braces of %s do not match: %s", name, value)
			}

			fields[name] = value
		}

		text = strings.Replace(text, entry[0]+"\n", "", 1)
		found[entry[1]] = fields
	}

	if text != "" {
		t.Errorf("outside the entries: %q", text)
	}

	return found
}

func TestBibTeX(t *testing.T) {
	all := entries(t, sweep)
	program, of := all["statelab"], all["statelab-sweep-20261122-011320"]
	if program["author"] != "{The Statelab authors}" || program["note"] != "Version (devel)" ||
		program["howpublished"] != `\url{https://github.com/statelab/statelab}` {
		t.Errorf("the program is %v", program)
	}

	if of["year"] != "2026" || of["month"] != "November" ||
		of["title"] != "Results of {Statelab}: a sweep" {
		t.Errorf("the results are %v in %v", of, slices.Sorted(maps.Keys(all)))
	}

	for _, want := range []string{"Statelab (devel).", "Seed: 1.", "pebble1 v1.1.5", "readrandom",
		"Example CPU, 2 cores", `-{}-cache 128KiB,1MiB`} {
		if !strings.Contains(of["note"], want) {
			t.Errorf("no %q in %q", want, of["note"])
		}
	}

	// The same folder twice has two entries, and one program.
	if all := entries(t, sweep, sweep, layouts, replay, imported, failed, watch); len(all) < 8 {
		t.Errorf("%q", slices.Sorted(maps.Keys(all)))
	}

	for _, dir := range []string{advice, prediction} {
		entries(t, dir)
	}
}

// TestTeX: what a user names cannot end a field, and is printed as it is.
func TestTeX(t *testing.T) {
	dir := t.TempDir()
	run := &result.Run{Status: result.OK, Verb: "read",
		Command: []string{"statelab", "read", `--db=a}b{{c\d`, "50%", "x_y&z#$~^"}}
	run.Host.Statelab, run.Host.Commit = "0.2.0", "0123456789ab"
	must(t, result.WriteRun(dir, run))
	all := entries(t, dir)
	note := all["statelab-run"]["note"]
	const want = `-{}-db=a\textbraceright{}b\textbraceleft{}\textbraceleft{}c\textbackslash{}d' ` +
		`50\% 'x\_y\&z\#\$\textasciitilde{}\textasciicircum{}'.`
	if !strings.HasSuffix(note, want) {
		t.Errorf("%s", note)
	}

	if got := all["statelab"]["note"]; got != "Version 0.2.0, commit 0123456789ab" {
		t.Errorf("%s", got)
	}
}

// TestPicture: the file is XML, as wide as a column, with type that can be read there, and says
// where its figures come from.
func TestPicture(t *testing.T) {
	for _, dir := range []string{sweep, layouts, advice, prediction} {
		report, err := kinds.Open(dir)
		must(t, err)
		caption, err := Caption(report, dir)
		must(t, err)
		var out bytes.Buffer
		must(t, Picture(&out, report, caption))

		for decoder := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
		}

		var svg struct {
			Width   string  `xml:"width,attr"`
			Height  string  `xml:"height,attr"`
			ViewBox string  `xml:"viewBox,attr"`
			Type    float64 `xml:"font-size,attr"`
			About   string  `xml:"desc"`
		}
		must(t, xml.Unmarshal(out.Bytes(), &svg))
		units, err := strconv.ParseFloat(strings.Fields(svg.ViewBox)[2], 64)
		must(t, err)
		if points := svg.Type * 3.5 * 72 / units; svg.Width != "3.500in" ||
			!strings.HasSuffix(svg.Height, "in") || points < 8 || points > 9 {
			t.Errorf("%s: %s x %s, type of %.1f points", dir, svg.Width, svg.Height, points)
		}

		if !strings.HasSuffix(svg.About, caption) || !strings.Contains(caption, "statelab ") {
			t.Errorf("%s: described as %q", dir, svg.About)
		}
	}

	report, err := kinds.Open(sweep)
	must(t, err)
	caption, err := Caption(report, sweep)
	must(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "caption.txt"))
	must(t, err)
	if caption+"\n" != string(want) {
		t.Errorf("the caption is %q", caption)
	}

	report, err = kinds.Open(failed)
	must(t, err)
	if err := Picture(io.Discard, report, ""); err == nil {
		t.Error("a picture of nothing")
	}
}

// TestAPredictionNamesItsProgram: the version and the commit of what computed it are in its file,
// where there is no machine, and in its caption.
func TestAPredictionNamesItsProgram(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(prediction, result.PredictionFile))
	must(t, err)
	dir := t.TempDir()
	own := []byte(`{"statelab":"0.2.0","commit":"0123456789ab",`)
	text = bytes.Replace(text, []byte("{"), own, 1)
	must(t, os.WriteFile(filepath.Join(dir, result.PredictionFile), text, 0o600))
	p, err := ReadProvenance(dir)
	must(t, err)
	if p.Program != "0.2.0, commit 0123456789ab" || p.Machine != "" {
		t.Errorf("%+v", p)
	}
}
