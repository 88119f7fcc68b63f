package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// A real Slurm, on loopback: every node is a slurmd of this test on this machine.

func fourNodes(t *testing.T) *slurmCluster {
	c := startSlurm(t, []slurmNode{
		{Name: "n1", Features: "small,ssd"},
		{Name: "n2", Features: "small,ssd"},
		{Name: "n3", Features: "large"},
		{Name: "n4", Features: "large,fat", CPUs: 2},
	})
	t.Setenv("SLURM_CONF", c.Conf)
	return c
}

func TestCluster(t *testing.T) {
	c := fourNodes(t)
	db, copies := copied(t, "n1", "n2")
	scratch := t.TempDir()
	file := filepath.Join(t.TempDir(), "e.yaml")
	write := func(more string) {
		t.Helper()
		text := "schema: statelab.experiment/1\nmeasure: sweep\nsubject: {cache: [300KiB, " +
			"600KiB]}\n" +
			"database: {dir: " + db + "}\n" +
			"workload: {gets: 20k, warmup: 1000, access_gets: 0}\nrepeats: 2\n" +
			"cluster: {constraint: small, databases: [" + copies + "], scratch: " + scratch +
			more + "}\n"

		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	out := t.TempDir()
	t.Run("reads what this machine reads", func(t *testing.T) {
		write("")
		here, there := filepath.Join(out, "L"), filepath.Join(out, "S")
		must(t, "run", file, "--out", here)
		must(t, "run", file, "--on", "slurm:main", "--out", there)
		sameReads(t, here, there)
		must(t, "report", here, there)
		nodes := map[string]string{}
		for _, p := range readSweep(t, there).Points {
			for _, folder := range p.Runs {
				h := readRun(t, filepath.Join(there, folder)).Host
				if h.Node != "n1" && h.Node != "n2" || h.Class != "small" || h.Job == "" {
					t.Errorf("%s: node %q, class %q, job %q", folder, h.Node, h.Class, h.Job)
				}

				point := fmt.Sprint(p.Axes)
				if known := nodes[point]; known != "" && known != h.Node {
					t.Errorf("the repeats of %s ran on %s and %s", point, known, h.Node)
				}

				nodes[point] = h.Node
			}
		}

		if left, err := filepath.Glob(filepath.Join(scratch, "*", "*", "[0-9]*")); err != nil ||
			len(left) > 0 {
			t.Errorf("left on the nodes: %v, %v", left, err)
		}
	})

	t.Run("a node of another kind is refused", func(t *testing.T) {
		there := filepath.Join(out, "S")
		path := filepath.Join(there, "slurm", "hardware-small.json")
		known := read(t, path)
		if err := os.WriteFile(path, []byte(`{"Node":"n7","Kind":"another CPU"}`),
			0o644); err != nil {
			t.Fatal(err)
		}

		if err := os.RemoveAll(filepath.Join(there, "points", "000-0")); err != nil {
			t.Fatal(err)
		}

		refused(t, statelab(t, "run", "--resume", "--out", there), exitFailed,
			"is not of the same kind as n7", "n7 has another CPU")
		if err := os.WriteFile(path, known, 0o644); err != nil {
			t.Fatal(err)
		}

		must(t, "run", "--resume", "--out", there)
	})

	t.Run("Ctrl-C", func(t *testing.T) {
		there := filepath.Join(out, "C")
		run := start(t, "sweep", "--db", db, "--cache", "1MiB,2MiB,3MiB,4MiB", "--rate", "1k",
			"--gets", "20k", "--warmup", "0", "--access-gets", "0",
			"--on", "slurm", "--constraint", "small", "--db-at", copies, "--scratch", scratch,
			"--out", there)

		run.until("a point runs", func() bool {
			text, err := c.Ask("squeue", "--noheader", "--states=R")
			return err == nil && text != ""
		})

		run.signal(syscall.SIGINT)
		refused(t, run.wait(), exitFailed, "interrupted with",
			"of 4 runs finished; to continue: statelab sweep --resume --out "+there)
		if left, err := c.Ask("squeue", "--noheader", "--states=PD,R"); err != nil || left != "" {
			t.Errorf("left in the queue: %s, %v", left, err)
		}
	})

	t.Run("mistakes", func(t *testing.T) {
		for _, wrong := range []struct {
			args  []string
			words []string
		}{
			{
				[]string{"--on", "moon"},
				[]string{`--on "moon": must be local, slurm or slurm:PARTITION`},
			},
			{[]string{"--on", "slurm:none"}, []string{`no partition "none"`, "main"}},
			{
				[]string{"--on", "slurm", "--constraint", "gpu"},
				[]string{`no node has "gpu"`, "fat, large, small, ssd"},
			},
			{
				[]string{"--on", "slurm", "--constraint", "large"},
				[]string{"nodes of different kinds", "n3 with 1 CPUs", "n4 with 2 CPUs"},
			},
			{
				[]string{"--on", "slurm", "--constraint", "small", "--db-at", "n9"},
				[]string{`no node "n9"`},
			},
			{[]string{"--constraint", "small"}, []string{"add --on slurm"}},
		} {
			o := statelab(t,
				append([]string{"sweep", "--db", db, "--cache", "1MiB", "--out",
					filepath.Join(t.TempDir(), "S")}, wrong.args...)...)
			if o.exit == exitDone {
				t.Errorf("%v is accepted", wrong.args)
			}

			refused(t, o, o.exit, wrong.words...)
		}
	})

	t.Run("check", func(t *testing.T) {
		c.Must("scontrol", "update", "NodeName=n3", "State=DOWN", "Reason=broken fan")
		o := statelab(t, "cluster", "check", "--shared", t.TempDir())
		// refused if its slurmd was faster
		c.Ask("scontrol", "update", "NodeName=n3", "State=RESUME")
		refused(t, o, exitFailed, "the cluster is not ready")
		for _, want := range []string{"cluster: Slurm ", "n1: ready: 1 CPUs",
			"n3: it is down (broken fan)", "Remedy: start slurmd there"} {
			if !o.says(want) {
				t.Errorf("check does not say %q\n%v", want, o)
			}
		}
	})

	t.Run("parts make the whole", func(t *testing.T) {
		db := small(t, "100k", "--set", "MemTableSize=256KiB", "--set", "LBaseMaxBytes=1MiB")
		whole := must(t, "inspect", db, "--json").stdout
		there := must(t, "inspect", db, "--json", "--on", "slurm", "--parts", "2", "--nodes",
			"1,2", "--scratch", scratch)
		if there.stdout != whole {
			t.Errorf("in parts: %s\nwhole: %s", there, whole)
		}

		table := regexp.MustCompile(`nodes +took +on the nodes +speed-up +efficiency\n` +
			`.* 1 .* 1.00 +100%\n.* 2 .*%\n`)
		if !table.MatchString(there.stderr) {
			t.Error(there)
		}

		file := func(name string) string { return filepath.Join(out, name) }
		trace := []string{"trace", "--db", db, "--gets", "20k", "--warmup", "1000", "--out"}
		must(t, append(trace, file("whole"))...)
		must(t,
			append(trace, file("merged"), "--on", "slurm", "--parts", "2", "--scratch", scratch)...)
		if !bytes.Equal(read(t, file("merged")), read(t, file("whole"))) {
			t.Error("the trace in parts is another than the whole")
		}

		curve := []string{"predict", "--keys", "10M", "--cores", "4", "--gets", "10k", "--warmup",
			"10k", "--seeds", "1", "--cache", "0.1%,3%", "--json",
			"--profile", "default", "--value-model", "random"}
		whole = must(t, curve...).stdout
		if there := must(t,
			append(curve, "--on", "slurm", "--scratch", scratch)...).stdout; there != whole {
			t.Errorf("on nodes: %s\nhere: %s", there, whole)
		}
	})

	t.Run("every node loads its own", func(t *testing.T) {
		out := filepath.Join(out, "own")
		must(t, "sweep", "--keys", "20k", "--cache", "300KiB,600KiB", "--gets", "10k", "--warmup",
			"0", "--access-gets", "0", "--on", "slurm",
			"--constraint", "small,fat", "--scratch", scratch, "--out", out)
		s := readSweep(t, out)
		if len(s.Points) != 4 || s.Status != result.OK {
			t.Fatalf("%d points, %s", len(s.Points), s.Status)
		}

		for _, p := range s.Points {
			h := readRun(t, filepath.Join(out, p.Run)).Host
			if h.Class != p.Axes["class"] || (h.Node == "n4") != (h.Class == "fat") {
				t.Errorf("%v ran on %s of class %s", p.Axes, h.Node, h.Class)
			}
		}

		if left, err := filepath.Glob(filepath.Join(scratch, "*", "*", "databases",
			"*")); err != nil || len(left) > 0 {
			t.Errorf("left on the nodes: %v, %v", left, err)
		}
	})
}

// TestClusterMemory: the limit that Slurm sets for a job and the budget of --memory hold at
// the same time.
func TestClusterMemory(t *testing.T) {
	c := startSlurm(t, []slurmNode{{Name: "n1"}}, memoryLimits)
	t.Setenv("SLURM_CONF", c.Conf)
	out := filepath.Join(t.TempDir(), "S")
	must(t, "sweep", "--engine", "bbolt", "--keys", "20k", "--gets", "5k", "--warmup", "0",
		"--memory", "64MiB",
		"--on", "slurm", "--sbatch=--mem=600", "--scratch", t.TempDir(), "--out", out)
	run := readRun(t, filepath.Join(out, readSweep(t, out).Points[0].Run))
	if m := run.Memory; run.Host.MemoryLimit != 600<<20 || m.PageCacheBytes == nil ||
		!strings.Contains(m.HeldBy, "within a limit of 600 MiB") {
		t.Errorf("limit %d, %+v", run.Host.MemoryLimit, m)
	}

	if o := must(t, "cluster", "check"); !o.says("Slurm limits the memory of jobs " +
		"(ConstrainRAMSpace)") {
		t.Error(o)
	}
}

// What cannot be done on nodes is refused with the reason.
func TestClusterRefuses(t *testing.T) {
	for _, wrong := range []struct {
		args  string
		words string
	}{
		{"replay --tree null --changes set.slcs --on slurm --parts 4",
			"--parts 4: a replay cannot be divided by versions"},
		{"load --db D --on slurm", "--on slurm: a load makes one database on one machine"},
		{"price --on slurm", "--on slurm: prices are computed on this machine"},
		{"predict --db D --on slurm", "one trace of the database serves all cache sizes"},
		{"trace --db D --out - --on slurm", "divides the work itself and writes one file"},
		{"inspect D --nodes 1,2", "--parts and --nodes need a cluster: add --on slurm"},
		{"trace --db D --out T --part 5/4", "must be K/N"},
	} {
		refused(t, statelab(t, strings.Fields(wrong.args)...), exitUsage, wrong.words)
	}
}

func TestInspectionInParts(t *testing.T) {
	// levels that no compaction decides
	db := small(t, "100k", "--workload", "fillsorted", "--set", "LBaseMaxBytes=1MiB")
	whole := must(t, "inspect", db, "--json").stdout
	if strings.Count(whole, `"level": `) < 4 { // told twice
		t.Fatalf("not several levels: %s", whole)
	}

	var files []string
	for k := range 3 {
		file := filepath.Join(t.TempDir(), "part")
		text := must(t, "inspect", db, "--json", "--part", fmt.Sprintf("%d/3", k+1)).stdout
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}

		files = append(files, file)
	}

	// Of another program's database, the tables of other parts are not taken for forgotten ones.
	foreign := filepath.Join(t.TempDir(), "D")
	copyTree(t, db, foreign)
	if err := os.RemoveAll(filepath.Join(foreign, "statelab")); err != nil {
		t.Fatal(err)
	}

	part := must(t, "inspect", foreign, "--json", "--part", "1/3")
	if strings.Contains(part.stdout+part.stderr, "not in its manifest") {
		t.Error(part)
	}

	merge := func(files ...string) outcome {
		return statelab(t, append([]string{"inspect", "--merge", "--json"}, files...)...)
	}
	if o := merge(files...); o.stdout != whole {
		t.Errorf("%v\nwhole: %s", o, whole)
	}

	refused(t, merge(files[0], files[2]), exitFailed, "part 2/3 is missing")
	refused(t, merge(files[0], files[0]), exitFailed, "part 1/3 is given twice")
	refused(t, statelab(t, "inspect", db, "--part", "4/3", "--json"), exitUsage,
		`--part "4/3": must be K/N`)
}

func TestTraceInParts(t *testing.T) {
	db, dir := small(t, "100k"), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct{ name, more string }{
		{"one thread", "--threads=1"},
		{"absent keys", "--missing=30%"},
		{"batches", "--workload=multireadrandom"},
		{"a sample", "--sample-shift=2"},
	} {
		flags := []string{"trace", "--db", db, "--gets", "30k", "--warmup", "5k", c.more,
			"--force", "--out"}
		must(t, append(flags, file("whole"))...)
		var parts []string
		for k := range 3 {
			parts = append(parts, file(fmt.Sprint("part-", k)))
			must(t, append(flags, parts[k], fmt.Sprintf("--part=%d/3", k+1))...)
		}

		must(t, "trace", "--merge", parts[2], parts[0], parts[1], "--force", "--out",
			file("merged"))
		if !bytes.Equal(read(t, file("merged")), read(t, file("whole"))) {
			t.Errorf("%s: merged otherwise than whole", c.name)
		}

		refused(t, statelab(t, "trace", "--merge", parts[0], parts[1], "--out", file("none")),
			exitFailed, "part 1/3 among 2 parts")
		refused(t,
			statelab(t, "trace", "--merge", parts[0], parts[1], parts[0], "--out", file("none")),
			exitFailed, "part 1/3 is given twice")
		refused(t, statelab(t, "trace", "--merge", file("whole"), "--out", file("none")),
			exitFailed, "not a part of a trace")
	}

	refused(t, statelab(t, "simulate", file("part-0"), "--cache", "1MiB"), exitFailed,
		"part 1/3 of a trace", "--merge")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPointsOneByOne: programs that start each run of a matrix themselves put the folders
// together and let --resume write the summary.
func TestPointsOneByOne(t *testing.T) {
	db, out := small(t, "20k"), filepath.Join(t.TempDir(), "S")
	args := []string{"sweep", "--db", db, "--cache", "300KiB,600KiB", "--gets", "5k", "--warmup",
		"0", "--access-gets", "0", "--repeats", "2"}
	var matrix struct{ Include []plan.Listed }
	if err := json.Unmarshal([]byte(must(t, append(args, "--print-matrix")...).stdout),
		&matrix); err != nil || len(matrix.Include) != 4 {
		t.Fatalf("%+v, %v", matrix, err)
	}

	for _, point := range matrix.Include {
		part := filepath.Join(t.TempDir(), "part")
		must(t, append(args, "--point", strconv.Itoa(point.Number), "--out", part)...)
		if err := os.CopyFS(filepath.Join(out, point.Folder),
			os.DirFS(filepath.Join(part, point.Folder))); err != nil {
			t.Fatal(err)
		}

		if err := os.Rename(filepath.Join(part, "experiment.yaml"),
			filepath.Join(out, "experiment.yaml")); err != nil {
			t.Fatal(err)
		}
	}

	must(t, "sweep", "--resume", "--out", out)
	if s := readSweep(t, out); s.Status != result.OK || len(s.Points) != 2 ||
		len(s.Points[1].Runs) != 2 {
		t.Errorf("%+v", s)
	}

	refused(t, statelab(t, append(args, "--point", "4")...), exitUsage,
		`--point "4": must be from 0 to 3`)
}

// TestClusterSharesNothing: the nodes see neither the folder of the results nor this program.
func TestClusterSharesNothing(t *testing.T) {
	home := t.TempDir() // hidden from the nodes
	c := startSlurm(t, []slurmNode{
		{Name: "n1", Hides: []string{home, scratch}},
		{Name: "n2", Hides: []string{home, scratch}},
	})

	t.Setenv("SLURM_CONF", c.Conf)
	args := []string{"sweep", "--keys", "20k", "--cache", "300KiB,600KiB", "--gets", "10k",
		"--warmup", "0", "--access-gets", "0"}
	here, there := filepath.Join(home, "L"), filepath.Join(home, "S")
	must(t, append(args, "--out", here)...)
	o := must(t, append(args, "--on", "slurm", "--scratch", t.TempDir(), "--out", there)...)
	if !strings.Contains(o.stderr, "delivering statelab to n1") {
		t.Errorf("nothing was delivered\n%v", o)
	}

	sameReads(t, here, there)
	if left, err := filepath.Glob(filepath.Join(there, "slurm", "collected-*")); err != nil ||
		len(left) > 0 {
		t.Errorf("left here: %v, %v", left, err)
	}
}

// copied is a database of which every node has a copy, and the value of --db-at that says so.
func copied(t *testing.T, nodes ...string) (db, copies string) {
	t.Helper()
	db = small(t, "20k")
	var list []string
	for _, n := range nodes {
		dir := filepath.Join(t.TempDir(), "db")
		if err := os.CopyFS(dir, os.DirFS(db)); err != nil {
			t.Fatal(err)
		}
		list = append(list, n+"="+dir)
	}

	return db, strings.Join(list, ",")
}

// sameReads expects the same points with the same block reads, bit for bit.
func sameReads(t *testing.T, a, b string) {
	t.Helper()
	of := func(dir string) map[string]any {
		reads := map[string]any{}
		for _, p := range readSweep(t, dir).Points {
			axes := maps.Clone(p.Axes)
			delete(axes, "class")
			for i, folder := range p.Runs {
				f := readRun(t, filepath.Join(dir, folder)).Figures
				reads[fmt.Sprint(axes, i)] = []any{f.OrZero(figure.BlockReadsPerGet),
					f.BlockReadsPerGetByType, f.BlockReadsPerGetByLevel, f.Gets, f.Found}
			}
		}

		return reads
	}

	if one, other := of(a), of(b); !reflect.DeepEqual(one, other) || len(one) == 0 {
		t.Errorf("%s: %v\n%s: %v", a, one, b, other)
	}
}

// TestClusterStorms: whatever fails while an experiment runs, --resume ends with every run
// measured once.
func TestClusterStorms(t *testing.T) {
	c := startSlurm(t, []slurmNode{{Name: "n1"}, {Name: "n2"}})
	t.Setenv("SLURM_CONF", c.Conf)
	db, copies := copied(t, "n1", "n2")
	storms := 20
	if testing.Short() {
		storms = 1
	}

	seed := drawn(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range storms {
		began := time.Now()
		storm(t, c, db, copies, random)
		t.Logf("storm %d took %v", n+1, time.Since(began).Round(time.Second))
		if t.Failed() {
			return
		}
	}
}

func me() string {
	u, err := user.Current()
	if err != nil {
		return "root"
	}
	return u.Username
}

func storm(t *testing.T, c *slurmCluster, db, copies string, random *rand.Rand) {
	t.Helper()
	const points = 5
	scratch, out := t.TempDir(), filepath.Join(t.TempDir(), "S")
	run := start(t, "sweep", "--db", db, "--cache", "1MiB,2MiB,3MiB,4MiB,5MiB", "--rate", "10k",
		"--gets", "10k", "--warmup", "0", "--access-gets", "0",
		"--on", "slurm", "--db-at", copies, "--scratch", scratch, "--out", out)
	running := func() bool {
		text, err := c.Ask("squeue", "--noheader", "--states=R")
		return err == nil && text != ""
	}

	run.until("a point runs", running)
	pause := func() { time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) }
	events := []func(){
		func() {
			node := fmt.Sprint("n", 1+random.IntN(2))
			t.Logf("%s is set down", node)
			c.Must("scontrol", "update", "NodeName="+node, "State=DOWN", "Reason=storm")
			pause()
		},
		func() {
			node := fmt.Sprint("n", 1+random.IntN(2))
			t.Logf("slurmd of %s is killed", node)
			c.Kill(node)
			pause()
			c.StartNode(node)
		},
		func() {
			t.Log("slurmctld is killed")
			c.Kill("slurmctld")
			pause()
			c.StartController()
		},
		func() {
			t.Log("statelab is killed")
			run.signal(syscall.SIGKILL)
		},
	}

	random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, event := range events {
		pause()
		event()
	}

	o := run.wait()
	if o.exit == exitDone {
		t.Log("it was over before it could be killed")
	}

	measured := map[string]time.Time{} // before --resume
	folders, err := filepath.Glob(filepath.Join(out, result.PointsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}

	for _, folder := range folders {
		if run, err := result.ReadRun(folder); err == nil && run.Status == result.OK {
			measured[filepath.Base(folder)] = run.Started
		}
	}

	if _, err := os.Stat(filepath.Join(out, "experiment.yaml")); errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v\nwas killed before it began", o)
	}

	// The administrator puts nodes back that are down, or that Slurm has drained.
	put := func() {
		for _, node := range []string{"n1", "n2"} {
			// refused for one that is not down
			c.Ask("scontrol", "update", "NodeName="+node, "State=RESUME")
		}
	}

	again, over := start(t, "sweep", "--resume", "--out", out), make(chan outcome)
	go func() { over <- again.wait() }()
	var resumed outcome
	for waits := true; waits; {
		select {
		case resumed = <-over:
			waits = false
		case <-time.After(time.Second):
			put()
		}
	}

	put()
	if resumed.exit != exitDone {
		t.Fatal(resumed)
	}

	s := readSweep(t, out)
	if s.Status != result.OK || len(s.Points) != points {
		t.Errorf("%s, %d points\n%v", s.Status, len(s.Points), resumed)
	}

	for _, p := range s.Points {
		run := readRun(t, filepath.Join(out, p.Run))
		if p.Status != result.OK || run.Figures.Gets != 10_000 || len(p.Runs) != 1 {
			t.Errorf("point %v: %s, %d Gets, %v", p.Axes, p.Status, run.Figures.Gets, p.Runs)
		}

		if before, known := measured[filepath.Base(p.Run)]; known && !before.Equal(run.Started) {
			t.Errorf("point %v was measured again", p.Axes)
		}

		if slurm.NodeOf(filepath.Join(out, p.Run)) == "" {
			t.Errorf("point %v has no node", p.Axes)
		}
	}

	entries, err := os.ReadDir(filepath.Join(out, result.PointsDir))
	if err != nil || len(entries) != points {
		t.Errorf("the folder of points holds %v, %v", entries, err)
	}

	t.Logf("%d of %d points were measured before --resume", len(measured), points)
	// A job that a node still completes may be put back after statelab has ended: started
	// again, it finds its result and ends.
	if left, err := c.Ask("squeue", "--noheader", "--array", "--format=%K %t %r"); err == nil &&
		left != "" {
		t.Logf("left in the queue: %s", left)
	}

	c.Until("the queue is empty", func() bool {
		// a controller that forgot its last seconds may bring back jobs of earlier storms
		c.Ask("scancel", "--user="+me())
		text, err := c.Ask("squeue", "--noheader")
		return err == nil && text == ""
	})
}
