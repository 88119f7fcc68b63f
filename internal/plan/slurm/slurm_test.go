package slurm

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/report/doc"
)

// Problems are warnings with their remedies; what is good to know is a list.
func TestFindingsAreADocument(t *testing.T) {
	all := []Finding{
		{Where: ofCluster, OK: true, Text: "Slurm 22.05"},
		{Where: "n1", OK: true, Text: "ready: 4 CPUs"},
		{Where: "n2", Text: "it is down", Remedy: "start slurmd there"},
		{Where: "n3", OK: true, Text: "ready: 4 CPUs"},
		{Where: "n3", Text: "sha256sum is missing", Remedy: "install coreutils"},
	}

	want := &doc.Document{
		Title:   "Slurm's nodes",
		Answers: doc.Statements("", "Nodes that are ready: 1 of 3."),
		Warnings: []doc.Warning{
			{Text: "n2: it is down", Remedy: "start slurmd there"},
			{Text: "n3: sha256sum is missing", Remedy: "install coreutils"},
		},
		Sections: []doc.Section{{Title: "Findings", Blocks: []doc.Block{{List: []string{
			"cluster: Slurm 22.05", "n1: ready: 4 CPUs", "n3: ready: 4 CPUs"}}}}},
	}
	if diff := cmp.Diff(want, Document(all)); diff != "" {
		t.Error(diff)
	}

	if NoProblem(all) || !NoProblem(all[:2]) {
		t.Error("a cluster is ready if none of its nodes has a problem")
	}
}

func TestQueueIsRead(t *testing.T) {
	rows, err := parseQueue("1|2|PD|||Resources\n2|0|R|n1||None\n7|1|PD||n2|ReqNodeNotAvail, " +
		"UnavailableNodes:n2\n3|N/A|R|n3||None\n9|0|PD|||BeginTime\n")
	if err != nil {
		t.Fatal(err)
	}

	want := map[int]row{
		0: {"2", "R", "n1", "None", ""},
		1: {"7", "PD", "", "ReqNodeNotAvail, UnavailableNodes:n2", "n2"},
		2: {"1", "PD", "", "Resources", ""},
	}

	got := map[int]row{}
	for number, r := range rows {
		got[number] = *r
	}

	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
}

func TestNodesOfAnotherKindAreRefused(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ class, node, kind, says string }{
		{"", "n1", "CPU A, 4 cores", ""},
		{"", "n2", "CPU A, 4 cores", ""},
		{"", "n3", "CPU B, 4 cores", "node n3 is not of the same kind as n1, which measured " +
			"before it: n3 has CPU B, 4 cores, n1 has CPU A, 4 cores"},
		{"nvme&64gb", "n3", "CPU B, 4 cores", ""},
		{"nvme&64gb", "n1", "CPU A, 4 cores", "n3 has CPU B, 4 cores"},
	} {
		if err := asOthers(dir, c.class, c.node, c.kind); c.says == "" && err != nil ||
			c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d: %v, want %q", i, err, c.says)
		}
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

const someNodes = "n1|idle|small,ssd|4|16000|main*|none\nn2|down*|small,ssd|4|16000|main*|broken " +
	"fan\nn3|idle|small,big|8|16000|main*|none\n" +
	"n4|mix|(null)|4+|16000+|gpu|none\n"

func TestNodesOfAClassAreAlike(t *testing.T) {
	nodes, err := parseNodes(someNodes, "")
	if err != nil || len(nodes) != 3 || !nodes[1].Down() || nodes[1].Reason != "broken fan" {
		t.Fatalf("%+v, %v", nodes, err)
	}

	for class, says := range map[string]string{
		"ssd": "", "small&big": "", "big": "",
		"small": "class small has nodes of different kinds: n1, n2 with 4 CPUs, 16000 MiB; n3 " +
			"with 8 CPUs, 16000 MiB",
		"gpu": `no node has "gpu" (features of the nodes: big, small, ssd)`,
		"a|b": "must be one feature, or several joined by &",
	} {
		if err := Alike(nodes, class); says == "" && err != nil ||
			says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", class, err, says)
		}
	}

	if n := Processors(nodes, "small"); n != 12 {
		t.Errorf("%d processors", n)
	}

	if _, err := parseNodes(someNodes, "moon"); err == nil ||
		!strings.Contains(err.Error(), "partitions: gpu, main") {
		t.Error(err)
	}
}

// The script finds the programs where they are, or waits until they are delivered.
func TestScriptFindsOrAwaitsItsPrograms(t *testing.T) {
	dir := t.TempDir()
	folder, scratch, home := filepath.Join(dir, "it's here"), filepath.Join(dir, "scratch"),
		filepath.Join(dir, "home")
	for _, d := range []string{folder, home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	path := filepath.Join(home, "statelab")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"$0 $1 $STATELAB_CLASS\"\ncat\n"),
		0o755); err != nil {
		t.Fatal(err)
	}

	all, err := programs([]string{path})
	if err != nil {
		t.Fatal(err)
	}

	w := &batch{
		Batch:    Batch{Cluster: Cluster{Scratch: scratch}, Folder: folder},
		name:     "jobs",
		programs: all,
	}

	text, err := w.script([]*task{{
		Task:   &Task{Args: []string{"run"}, Class: "small&ssd"},
		number: 3,
	}})
	if err != nil {
		t.Fatal(err)
	}

	start := func(element, job string) *exec.Cmd {
		command := exec.Command("/bin/sh", "-c", text)
		command.Env = append(os.Environ(), "SLURM_ARRAY_TASK_ID="+element, "SLURM_JOB_ID="+job,
			"SLURMD_NODENAME=n1")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}

		return command
	}

	log := filepath.Join(folder, "3.log")
	if err := start("3", "17").Wait(); err != nil {
		t.Fatal(err)
	}

	said, err := os.ReadFile(log)
	if err != nil || !strings.HasPrefix(string(said), path+" "+ElementVerb+" small&ssd\n") {
		t.Fatalf("%s, %v", said, err)
	}

	var o order
	_, rest, _ := strings.Cut(string(said), "\n")
	if err := json.Unmarshal([]byte(rest), &o); err != nil || o.Tasks[3] == nil ||
		o.Where != folder || !seen(o) {
		t.Errorf("%s: %+v, %v", rest, o, err)
	}

	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	// Two jobs ask at the same time, and get the program one after the other: what the first
	// one may be running then is replaced, not written to.
	jobs := map[string]*exec.Cmd{"18": start("4", "18"), "19": start("5", "19")}
	for _, element := range []string{"4", "5"} {
		within(t, "it does not ask", func() bool {
			said, err := os.ReadFile(filepath.Join(folder, element+".log"))
			return err == nil && strings.Contains(string(said), `{"needs":"programs"}`)
		})
	}

	shared := filepath.Join(w.delivered(), "statelab")
	var first os.FileInfo
	for job, element := range map[string]string{"18": "4", "19": "5"} {
		if err := os.WriteFile(filepath.Join(w.delivered(), job, "statelab"), program,
			0o755); err != nil {
			t.Fatal(err)
		}

		if err := jobs[job].Wait(); err != nil {
			t.Error(err)
		}

		said, err := os.ReadFile(filepath.Join(folder, element+".log"))
		if err != nil || !strings.Contains(string(said), shared+" "+ElementVerb) {
			t.Errorf("%s, %v", said, err)
		}

		now, err := os.Stat(shared)
		if err != nil {
			t.Fatal(err)
		}

		if first != nil && os.SameFile(first, now) {
			t.Error("a program that may run was written to")
		}

		first = now
	}

	if left, err := os.ReadDir(w.delivered()); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func within(t *testing.T, complaint string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal(complaint)
		}
	}
}

// Who comes second with a result leaves the first one's; a failure is replaced.
func TestAResultIsPlacedOnce(t *testing.T) {
	to := filepath.Join(t.TempDir(), "points", "000")
	made := func(exit int, node string) string {
		dir := t.TempDir()
		text, err := json.Marshal(End{Exit: exit, Node: node})
		if err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(filepath.Join(dir, EndFile), text, 0o644); err != nil {
			t.Fatal(err)
		}

		return dir
	}

	for _, step := range []struct {
		exit       int
		node, want string
	}{{1, "n1", "n1"}, {1, "n2", "n2"}, {0, "n3", "n3"}, {0, "n4", "n3"}, {1, "n5", "n3"}} {
		if err := place(made(step.exit, step.node), to); err != nil {
			t.Fatal(err)
		}

		if node := NodeOf(to); node != step.want {
			t.Errorf("after %+v it is that of %s", step, node)
		}
	}

	if entries, err := os.ReadDir(filepath.Dir(to)); err != nil || len(entries) != 1 {
		t.Errorf("left beside it: %v, %v", entries, err)
	}
}

// What a start that was killed has left beside a result goes; what belongs to another stays.
func TestCopiesOfKilledStartsGo(t *testing.T) {
	points := t.TempDir()
	random := randomText()
	for _, name := range []string{"000", "000-0", ".000-" + random, ".000-" + random + "-old",
		".000-0-" + random, ".0001-" + random} {
		if err := os.Mkdir(filepath.Join(points, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	if err := removeCopies(filepath.Join(points, "000")); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(points)
	if err != nil {
		t.Fatal(err)
	}

	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}

	want := []string{".000-0-" + random, ".0001-" + random, "000", "000-0"}
	if !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

func FuzzUntar(f *testing.F) {
	for _, name := range []string{"run.json", "a/../../b", "/etc/x", "../up"} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(
			&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644},
		); err != nil {
			f.Fatal(err)
		}

		if _, err := w.Write([]byte("x")); err != nil {
			f.Fatal(err)
		}

		if err := w.Close(); err != nil {
			f.Fatal(err)
		}

		f.Add(b.Bytes())
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}

		if untar(io.LimitReader(bytes.NewReader(text), 1<<20), dir) != nil {
			return
		}

		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Errorf("outside: %v, %v", entries, err)
		}
	})
}

func FuzzSlurmsAnswers(f *testing.F) {
	f.Add(someNodes)
	f.Add("1|2|PD|||Resources\n")
	f.Fuzz(func(t *testing.T, text string) {
		if rows, err := parseQueue(text); err == nil {
			for number, r := range rows {
				if r == nil {
					t.Errorf("row %d is nil", number)
				}
			}
		}

		if nodes, err := parseNodes(text, ""); err == nil && len(nodes) == 0 {
			t.Error("no nodes and no error")
		}

		judgeNode(Node{Name: "n"}, text, "/tmp", "/home")
		judgeSettings(text)
	})
}

// A job that has left the queue is not given up while its result is being stored.
func TestAResultThatComesIsWaitedFor(t *testing.T) {
	w := &batch{name: "jobs"}
	c := &task{
		Task:      &Task{Label: "run 1"},
		submitted: true,
		collects:  true,
		lastJob:   "17",
		node:      "n1",
		missing:   time.Now().Add(-100 * time.Second),
	}

	if err := w.missing(c); err != nil || c.ended || !c.submitted {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestWords of a real program whose controller does not answer.
func TestWords(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	const text = "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\n" +
		"SlurmUser=root\nAuthType=auth/none\n" +
		"NodeName=localhost\nPartitionName=p Nodes=localhost\nMessageTimeout=2\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	t.Setenv("SLURM_CONF", conf)
	testring.Program(t, "squeue")
	if _, err := queue("none"); !away(err) {
		t.Errorf("%v", err)
	}

	if _, err := ask("", "sinfo", "--no-such-option"); err == nil || away(err) {
		t.Errorf("%v", err)
	}
}

// TestEach: a flag that may be repeated is repeated for each value that it has.
func TestEach(t *testing.T) {
	flags, options := pflag.NewFlagSet("", pflag.ContinueOnError), new(setting.Options)
	flags.Var(options, "set", "")
	flags.String("cache", "", "")
	err := flags.Parse([]string{"--set", "a=1", "--cache", "1%,2%", "--set=b={c=2;d=3}"})
	if err != nil {
		t.Fatal(err)
	}

	got := Each("predict", "cache", []string{"1%", "2%"}, flags, nil)
	want := [][]string{{"predict", "--json", "--cache=1%", "--set=a=1", "--set=b={c=2;d=3}"},
		{"predict", "--json", "--cache=2%", "--set=a=1", "--set=b={c=2;d=3}"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
