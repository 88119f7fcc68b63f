package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Layouts end to end: real processes, with go-ethereum's runner beside the binary.

func TestLayoutsAgreeAndAreExplained(t *testing.T) {
	beside(t, "statelab-run-geth")
	out := filepath.Join(t.TempDir(), "L")
	o := must(t, "layouts",
		"--layout", "flat-pebble,geth-hash,geth-path,geth-flat,pagetrie,chunktrie",
		"--accounts", "1k,3k", "--accounts-per-block", "500", "--updates", "50",
		"--update-blocks", "3", "--reads", "1k", "--cold-lookups", "3", "--out", out, "--json")
	var l result.Layouts
	if err := json.Unmarshal([]byte(o.stdout), &l); err != nil {
		t.Fatal(err, o)
	}

	if len(l.Rows) != 12 || l.Status != result.OK || len(l.Roots) != 2 {
		t.Fatalf("%d rows, %s %s, roots %+v", len(l.Rows), l.Status, l.Error, l.Roots)
	}

	for i, v := range l.Roots {
		blocks := []int{5, 9}[i] // of the build, and 3 updates
		if v.Verdict != result.Identical || len(v.Layouts) != 5 || v.Compared != blocks {
			t.Errorf("%+v, want %d blocks", v, blocks)
		}
	}

	for _, row := range l.Rows {
		walks := row.Layout != "flat-pebble" && row.Layout != "geth-flat"
		if (row.Nodes.IsKnown()) != walks || walks &&
			math.Abs(row.Nodes.OrZero()-row.PredictedNodes.OrZero()) > .15 {
			t.Errorf("%s %d: nodes %v, expected %v", row.Layout, row.Accounts, row.Nodes.Pointer(),
				row.PredictedNodes.Pointer())
		}

		if row.DiskBytes.OrZero() == 0 || row.PeakRSSBytes.OrZero() == 0 ||
			row.LookupNanos.N != 1000 || row.UpdateNanos.OrZero() <= 0 ||
			row.OpenNanos.OrZero() == 0 || len(row.Lookups) != 16 {
			t.Errorf("%+v", row)
		}

		for _, stage := range []string{row.Build, row.Read} {
			if run, err := result.ReadRun(filepath.Join(out, stage)); err != nil ||
				run.Status != result.OK {
				t.Errorf("%s: %v", stage, err)
			}
		}

		// The layout's own count of its reads is the kernel's, but for the harness's,
		// which is too much for a few first lookups.
		for _, of := range row.Lookups {
			if row.Layout == "flat-pebble" && of.Condition != result.FirstLookups &&
				math.Abs(of.BlockReads.OrZero()-of.ReadCalls) > .02 {
				t.Errorf("%s %s: %g block reads, %g read calls", of.Condition, of.Kind,
					of.BlockReads.OrZero(), of.ReadCalls)
			}
		}
	}

	if _, err := os.Stat(filepath.Join(out, "states", "geth-path-1000")); !os.IsNotExist(err) {
		t.Errorf("the states are left: %v", err)
	}

	again := must(t, "report", out)
	for _, words := range []string{"A lookup of one of 3k accounts costs, memory held to 64 MiB: " +
		"flat-pebble", "Roots at 3k accounts: identical, 9 blocks",
		"geth-path 3k"} {
		if !again.says(words) {
			t.Errorf("the report does not say %q:\n%s", words, again.stdout)
		}
	}

	page, err := os.ReadFile(filepath.Join(out, result.ReportFile))
	if err != nil {
		t.Fatal(err)
	}

	for _, words := range []string{`class="chart-data"`, "Nodes per lookup", "no measurement"} {
		if !strings.Contains(string(page), words) {
			t.Errorf("the page lacks %q", words)
		}
	}
}

// Groups of any depth have the same roots, and reads of accounts, slots and chunks of code are
// counted by type.
func TestGroupDepths(t *testing.T) {
	beside(t, "statelab-run-geth")
	o := must(t, "layouts", "--layout", "geth-bintrie", "--set", "GroupDepth=1,8", "--accounts",
		"1k", "--accounts-per-block", "500", "--updates", "50", "--update-blocks", "2",
		"--code", "5000", "--reads", "500", "--cold-lookups", "5", "--predict-accounts", "400M",
		"--out", filepath.Join(t.TempDir(), "L"), "--json")

	var l result.Layouts
	if err := json.Unmarshal([]byte(o.stdout), &l); err != nil {
		t.Fatal(err, o)
	}

	if len(l.Rows) != 2 || l.Status != result.OK || len(l.Roots) != 1 ||
		l.Roots[0].Verdict != result.Identical || l.Roots[0].Compared != 4 {
		t.Fatalf("%d rows, %s %s, roots %+v", len(l.Rows), l.Status, l.Error, l.Roots)
	}

	kinds := map[string]int{}
	for _, row := range l.Rows {
		if math.Abs(row.Nodes.OrZero()/row.PredictedNodes.OrZero()-1) > .04 ||
			row.Updates.HashNanos.OrZero() > row.Updates.CPUNanos.OrZero() {
			t.Errorf("%s: %.2f nodes, expected %.2f; %+v", row.Layout, row.Nodes.OrZero(),
				row.PredictedNodes.OrZero(), row.Updates)
		}

		for _, of := range row.Lookups {
			kinds[of.Kind]++
			b := of.BlockTypes
			if of.Condition == result.FirstLookups && (b == nil || b.Data == 0 ||
				of.NodeBytes.OrZero() < 100 ||
				b.Data+b.Index+b.Filter > of.BlockReads.OrZero()+1e-9) {
				t.Errorf("%s, %s: %+v of %v reads", row.Layout, of.Kind, b, of.BlockReads.Pointer())
			}
		}
	}

	if len(kinds) != 6 || kinds[result.CodeLookup] != 8 || kinds[result.AbsentCodeLookup] != 8 {
		t.Errorf("lookups of %v", kinds)
	}

	ahead := map[string]float64{}
	for _, of := range l.Outlook {
		if of.Figure == "nodes_per_lookup" && of.Accounts == 400e6 {
			ahead[of.Layout] = of.Value
		}
	}

	one, eight := ahead["geth-bintrie GroupDepth=1"], ahead["geth-bintrie GroupDepth=8"]
	if !(one > 31 && one < 33.5 && eight > 5 && eight < 6) {
		t.Errorf("nodes at 400 M accounts: %v", ahead)
	}
}

func TestLayoutsNamesEveryMistake(t *testing.T) {
	o := statelab(t, "layouts", "--layout", "flat-pebble,flat-pebble,nothing,pagetrie:none",
		"--accounts", "0", "--contracts", "12", "--updates", "many",
		"--memory", "1parsec", "--bogus")
	refused(t, o, exitUsage, "flat-pebble: named twice",
		`--layout: unknown layout "nothing" (known: flat-pebble, pagetrie, `,
		"statelab-run-nothing",
		`pagetrie has no profile "none"`, "--accounts", "--contracts", "--updates", "--memory",
		"--bogus")
}

// Without updates there are no blocks of them.
func TestLayoutsWithoutUpdates(t *testing.T) {
	out := filepath.Join(t.TempDir(), "L")
	must(t, "layouts", "--layout", "flat-pebble,pagetrie", "--accounts", "100", "--updates", "0",
		"--reads", "100", "--out", out)
	l, err := result.ReadLayouts(out)
	if err != nil {
		t.Fatal(err)
	}

	for _, row := range l.Rows {
		if row.Status != result.OK || row.Updates != nil {
			t.Errorf("%s: %s, updates %+v", row.Layout, row.Status, row.Updates)
		}
	}
}

// TestLayoutsInMemory: a filesystem in memory has no cold reads of mapped files, and the answer
// says so instead of 0.
func TestLayoutsInMemory(t *testing.T) {
	const memory = "/dev/shm"
	if is, err := host.InMemory(memory); err != nil || !is {
		t.Skip("no filesystem in memory: ", err)
	}

	db, err := os.MkdirTemp(memory, "statelab-test-")
	if err != nil {
		t.Skip(err)
	}

	defer os.RemoveAll(db)
	out := filepath.Join(t.TempDir(), "L")
	answer := must(t, "layouts", "--layout", "flat-pebble,pagetrie", "--accounts", "1k",
		"--memory", "0", "--reads", "100", "--update-blocks", "0",
		"--db", filepath.Join(db, "S"), "--out", out).stdout
	answer = strings.Join(strings.Fields(answer), " ")
	if !strings.Contains(answer, "with nothing cached: flat-pebble 1.00 block reads. The reads "+
		"of pagetrie cannot be counted") {
		t.Error(answer)
	}

	budget := must(t, "layouts", "--layout", "flat-pebble", "--accounts", "1k", "--memory", "64MiB",
		"--reads", "100", "--update-blocks", "0", "--db", filepath.Join(db, "B"), "--out",
		filepath.Join(t.TempDir(), "B"))
	if !strings.Contains(budget.stderr, "the memory budget does not include its files") {
		t.Error(budget)
	}

	l, err := result.ReadLayouts(out)
	if err != nil {
		t.Fatal(err)
	}

	for _, row := range l.Rows {
		if (!row.BlockReads.IsKnown()) != (row.Layout == "pagetrie") {
			t.Errorf("%s: %v block reads", row.Layout, row.BlockReads.Pointer())
		}

		for _, look := range row.Lookups {
			if look.ReadsUnknown != (row.Layout == "pagetrie") {
				t.Errorf("%s: %+v", row.Layout, look)
			}
		}
	}
}

func TestLayoutThatDiesIsARow(t *testing.T) {
	runner := filepath.Join(scratch, "statelab-run-dying")
	script := `#!/bin/sh
case "$1" in
describe) echo '{"schema":"statelab.runner/1","engines":null,"layouts":['\
'{"name":"dying","root_rule":"none","profiles":[{"name":"default"}]}]}' ;;
check) echo '[]' ;;
*) kill -9 $$ ;;
esac
`

	if err := os.WriteFile(runner, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	out := filepath.Join(t.TempDir(), "L")
	o := statelab(t, "layouts", "--layout", "dying,flat-pebble", "--accounts", "1k", "--updates",
		"10", "--update-blocks", "1", "--reads", "100", "--out", out)
	refused(t, o, exitFailed, "dying failed at 1000 accounts")
	l, err := result.ReadLayouts(out)
	if err != nil {
		t.Fatal(err)
	}

	if len(l.Rows) != 2 || !strings.Contains(l.Rows[0].Error, "killed by signal 9") ||
		l.Rows[1].Status != result.OK {
		t.Errorf("%+v", l.Rows)
	}
}

// Every layout that is here runs, and one that is not is named with the way to it. What
// make has built is here.
func TestLayoutsAreAllOfThem(t *testing.T) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	dir := t.TempDir()
	if memory, err := host.InMemory(dir); err == nil && memory {
		t.Skip("NOMT needs a disk, and ", dir, " is on a filesystem in memory")
	}

	out := filepath.Join(dir, "all")
	run := must(t, "layouts", "--accounts", "1k", "--contracts", "0%", "--reads", "100",
		"--update-blocks", "0", "--memory", "64MiB", "--out", out)
	l, err := result.ReadLayouts(out)
	if err != nil {
		t.Fatal(err)
	}

	ran := map[string]bool{}
	for _, row := range l.Rows {
		ran[row.Layout] = row.Status == result.OK
	}

	for _, l := range subject.Layouts() {
		label := l.Label
		if ran[label] == strings.Contains(run.stderr, "left out: "+label+": ") {
			t.Errorf("%s: ran %v, and the words are %s", label, ran[label], run.stderr)
		}
	}

	if !ran["flat-pebble"] || !ran["pagetrie"] || !ran["chunktrie"] {
		t.Errorf("the embedded ones: %v", ran)
	}
}
