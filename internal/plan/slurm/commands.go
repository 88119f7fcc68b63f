package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/report/doc"
)

// Slurm's programs are asked in a form of our choice, never in the one for people: their
// output is `-o` with separators that no name holds.

// answerWithin is how long one of Slurm's programs may take.
const answerWithin = 60 * time.Second

// longestAnswer bounds what is read of one.
const longestAnswer = 64 << 20

// away is the failure of a controller that could not be reached; it may come back.
func away(err error) bool { return engine.CodeOf(err) == engine.CodeUnavailable }

// ask runs one of Slurm's programs with text on its standard input.
func ask(text, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "SLURM_TIME_FORMAT=standard", "LC_ALL=C")
	command.Stdin = strings.NewReader(text)
	// In a group of its own: Ctrl-C is for statelab. What is killed is not to submit later.
	runners.KillWithParent(command)
	var words bytes.Buffer
	command.Stderr = &words
	answer, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}

	if err := command.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("%s is not installed here: statelab needs Slurm's programs on "+
				"the machine that it starts jobs from (Debian: apt install slurm-client)", name)
		}

		return "", fmt.Errorf("start %s: %w", name, err)
	}

	out, err := io.ReadAll(io.LimitReader(answer, longestAnswer))
	if err = errors.Join(err, command.Wait()); err == nil {
		return string(out), nil
	}

	said := strings.TrimSpace(words.String())
	if ctx.Err() != nil {
		return "", engine.Fail(engine.CodeUnavailable, "%s did not answer in time", name)
	}

	if failure.Slurm(said) == engine.CodeUnavailable {
		return "", engine.Fail(engine.CodeUnavailable, "%s", firstLine(said))
	}

	return string(out), engine.Fail("", "%s: %s", name, cmp.Or(said, err.Error())).
		WithRemedy("run this on a machine of the cluster, where %s works", name)
}

func run(name string, args ...string) error {
	_, err := ask("", name, args...)
	return err
}

func firstLine(text string) string {
	return strings.SplitN(strings.TrimSpace(text), "\n", 2)[0]
}

// row is an element of an array in the queue.
type row struct {
	job    string // its own id
	state  string // PD, R, CG, ...
	node   string // "" while it waits
	reason string
	needed string // the nodes that it must have
}

// queue are the elements of the jobs with a name, by their number in the array.
func queue(name string) (map[int]*row, error) {
	text, err := ask("", "squeue", "--noheader", "--array", "--name="+name, "--user="+userName(),
		"--format=%A|%K|%t|%N|%n|%r")
	if err != nil {
		return nil, err
	}
	return parseQueue(text)
}

func parseQueue(text string) (map[int]*row, error) {
	rows := map[int]*row{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		fields := strings.SplitN(line, "|", 6)
		if len(fields) < 6 {
			return nil, fmt.Errorf("squeue said %q", line)
		}

		number, err := strconv.Atoi(fields[1])
		if err != nil {
			continue // not of an array
		}

		r := &row{fields[0], fields[2], fields[3], fields[5],
			strings.TrimPrefix(fields[4], "(null)")}
		// Of two elements of one number the one that runs counts.
		if known := rows[number]; known == nil || known.state == "PD" || known.state == "CG" {
			rows[number] = r
		}
	}

	return rows, nil
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// fate is what became of a job: Slurm's word for its state, "" if Slurm has forgotten it. A
// controller that lost its last seconds may have given the id to another job.
func fate(job, name string, number int) (string, error) {
	if job == "" {
		return "", nil
	}

	text, err := ask("", "scontrol", "--oneliner", "show", "job", job)
	if err != nil {
		if away(err) {
			return "", err
		}
		return "", nil // it says "Invalid job id specified"
	}

	if field(text, "JobName") != name || field(text, "ArrayTaskId") != strconv.Itoa(number) {
		return "", nil
	}

	return field(text, "JobState"), nil
}

// field is the value of NAME=VALUE in a line of scontrol.
func field(line, name string) string {
	for _, word := range strings.Fields(line) {
		if value, is := strings.CutPrefix(word, name+"="); is {
			return value
		}
	}
	return ""
}

// Node is what Slurm says of a node.
type Node struct {
	Name     string
	State    string // idle, alloc, down, drain, ...; a star behind it: it does not answer
	Features []string
	CPUs     int
	// MemoryMiB is what its configuration says.
	MemoryMiB int
	Reason    string // why it is down or drained
}

// Kind is what makes two nodes of one class alike.
func (n Node) Kind() string { return fmt.Sprintf("%d CPUs, %d MiB", n.CPUs, n.MemoryMiB) }

// Down reports whether no job can run on it.
func (n Node) Down() bool {
	bad := []string{"down", "drain", "drng", "fail", "unk", "maint", "boot"}
	return strings.HasSuffix(n.State, "*") ||
		slices.ContainsFunc(bad, func(state string) bool {
			return strings.HasPrefix(n.State, state)
		})
}

// Nodes are those of a partition, "" is the default one.
func Nodes(partition string) ([]Node, error) {
	text, err := ask("", "sinfo", "--noheader", "--Node", "--format=%N|%t|%f|%c|%m|%P|%E")
	if err != nil {
		return nil, err
	}
	return parseNodes(text, partition)
}

func parseNodes(text, partition string) (nodes []Node, err error) {
	var others []string
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), "|", 7)
		if len(fields) < 7 {
			return nil, fmt.Errorf("sinfo said %q", line)
		}

		name, isDefault := strings.CutSuffix(fields[5], "*")
		if partition != "" && name != partition || partition == "" && !isDefault {
			others = append(others, name)
			continue
		}

		n := Node{Name: fields[0], State: fields[1], Reason: strings.TrimPrefix(fields[6], "none")}
		if fields[2] != "(null)" {
			n.Features = strings.Split(fields[2], ",")
		}

		var errCPUs, errMemory error
		n.CPUs, errCPUs = strconv.Atoi(strings.TrimSuffix(fields[3], "+"))
		n.MemoryMiB, errMemory = strconv.Atoi(strings.TrimSuffix(fields[4], "+"))
		if err := errors.Join(errCPUs, errMemory); err != nil {
			return nil, fmt.Errorf("sinfo said %q: %w", line, err)
		}

		nodes = append(nodes, n)
	}

	switch {
	case len(nodes) > 0:
		return nodes, nil
	case partition == "":
		return nil, fmt.Errorf("the cluster has no default partition: name one, --on "+
			"slurm:PARTITION (partitions: %s)", strings.Join(unique(others), ", "))
	}

	return nil, fmt.Errorf("the cluster has no partition %q (partitions: %s)", partition,
		strings.Join(unique(others), ", "))
}

// Finding is a sentence about a cluster or one of its nodes.
type Finding struct {
	Where  string `json:"where"` // ofCluster, or the node
	OK     bool   `json:"ok"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// isProblem tells whether runs fail until somebody mends what was found.
func (f Finding) isProblem() bool { return !f.OK && f.Remedy != "" }

// NoProblem tells whether nothing that was found prevents runs.
func NoProblem(all []Finding) bool { return !slices.ContainsFunc(all, Finding.isProblem) }

// ofCluster is Where of a finding about no single node.
const ofCluster = "cluster"

// Document says which nodes runs can use, what prevents that on others, and what else was found.
func Document(all []Finding) *doc.Document {
	nodes := doc.Where(doc.Distinct(all, func(f Finding) string { return f.Where }),
		func(where string) bool { return where != ofCluster })
	problems := doc.Where(all, Finding.isProblem)
	ready := doc.Where(nodes, func(node string) bool {
		return !slices.ContainsFunc(problems, func(f Finding) bool { return f.Where == node })
	})

	d := &doc.Document{Title: "Slurm's nodes"}
	d.Answer("", fmt.Sprintf("Nodes that are ready: %d of %d.", len(ready), len(nodes)))
	d.Warnings = doc.Each(problems, func(f Finding) doc.Warning {
		return doc.Warning{Text: f.Where + ": " + f.Text, Remedy: f.Remedy}
	})

	others := doc.Where(all, func(f Finding) bool { return !f.isProblem() })
	d.Add("Findings", doc.Block{List: doc.Each(others, func(f Finding) string {
		text := f.Where + ": " + f.Text
		if f.Remedy != "" {
			text += ". Remedy: " + f.Remedy
		}

		return text
	})})

	return d
}

// Alike refuses a class that no node has, or whose nodes differ: points of one class are
// compared. "" or a space is the class of all nodes.
func Alike(nodes []Node, class string) error {
	class = strings.TrimSpace(class)
	if err := HasClass(nodes, class); err != nil {
		return err
	}

	kinds := map[string][]string{}
	var features []string
	for _, n := range nodes {
		features = append(features, n.Features...)
		if has(n, class) {
			kinds[n.Kind()] = append(kinds[n.Kind()], n.Name)
		}
	}

	what := "the partition"
	if class != "" {
		what = "class " + class
	}

	if len(kinds) == 1 {
		return nil
	}

	var texts []string
	for kind, names := range kinds {
		texts = append(texts, strings.Join(names, ", ")+" with "+kind)
	}

	slices.Sort(texts)
	return fmt.Errorf("%s has nodes of different kinds: %s. Choose a feature that only nodes of "+
		"one kind have (features: %s)",
		what, strings.Join(texts, "; "), strings.Join(unique(features), ", "))
}

// HasClass refuses a class that no node has.
func HasClass(nodes []Node, class string) error {
	if strings.ContainsAny(class, "|[]()*,") {
		return fmt.Errorf("%q: must be one feature, or several joined by & (example: nvme&64gb)",
			class)
	}

	var features []string
	for _, n := range nodes {
		if has(n, class) {
			return nil
		}
		features = append(features, n.Features...)
	}

	return fmt.Errorf("no node has %q (features of the nodes: %s)", class,
		strings.Join(unique(features), ", "))
}

// Processors are those of the nodes of a class that jobs can run on, at least 1.
func Processors(nodes []Node, class string) (all int) {
	for _, n := range nodes {
		if has(n, class) && !n.Down() {
			all += n.CPUs
		}
	}
	return max(all, 1)
}

// Ready are the nodes of a class that can run a job now.
func Ready(nodes []Node, class string) (names []string) {
	for _, n := range nodes {
		if has(n, strings.TrimSpace(class)) && !n.Down() {
			names = append(names, n.Name)
		}
	}
	return names
}

func has(n Node, class string) bool {
	if class == "" {
		return true
	}

	for feature := range strings.SplitSeq(class, "&") {
		if !slices.Contains(n.Features, feature) {
			return false
		}
	}

	return true
}

// checkScript answers in NAME=VALUE lines.
const checkScript = `
scratch=%s shared=%s nonce=%s
if mkdir -p "$scratch" 2>/dev/null && [ -w "$scratch" ]; then
	echo scratch=yes
	df -Pk "$scratch" | awk 'NR==2 {print "free=" $4}'
	case "$(stat -f -c %%T "$scratch")" in
	tmpfs|ramfs|nfs*) echo "kind=$(stat -f -c %%T "$scratch")" ;;
	esac
fi
[ "$(cat "$shared" 2>/dev/null)" = "$nonce" ] && echo shared=yes
printf %%s %s | sha256sum --check --status 2>/dev/null && echo program=yes
command -v sha256sum >/dev/null && echo sha256sum=yes
echo "memory=$(awk -F: '$2 == "memory" || $1 == 0 {print $3; exit}' /proc/self/cgroup)"
[ "$(id -u)" = 0 ] && echo root=yes
true
`

// Check says what is missing on which node. Only nodes that are free are looked at from
// within.
func Check(ctx context.Context, c Cluster, shared string) (found []Finding, err error) {
	nodes, err := Nodes(c.Partition)
	if err != nil {
		return nil, err
	}

	settings, err := ask("", "scontrol", "show", "config")
	if err != nil {
		return nil, err
	}

	found = judgeSettings(settings)
	mark, err := os.CreateTemp(shared, ".statelab-check-")
	if err != nil {
		return nil, fmt.Errorf("--shared: %w", err)
	}

	defer os.Remove(mark.Name())
	nonce := randomText()
	if _, err = mark.WriteString(nonce); err == nil {
		err = mark.Close()
	}

	if err != nil {
		return nil, fmt.Errorf("--shared: %w", err)
	}

	all, err := programs(c.Programs)
	if err != nil {
		return nil, err
	}

	script := fmt.Sprintf(checkScript, quote(c.Scratch), quote(mark.Name()), quote(nonce),
		quote(all[0].Sum+"  "+all[0].Path+"\n"))
	of := make([][]Finding, len(nodes))
	var group sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, n := range nodes {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				of[i] = c.checkNode(n, script, filepath.Dir(mark.Name()))
			}
		})
	}

	group.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	return append(found, slices.Concat(of...)...), nil
}

func (c Cluster) checkNode(n Node, script, shared string) (found []Finding) {
	add := func(ok bool, text, remedy string) {
		found = append(found, Finding{n.Name, ok, text, remedy})
	}
	if n.Down() {
		why := ""
		if n.Reason != "" {
			why = " (" + n.Reason + ")"
		}

		add(false, "it is "+n.State+why+", so that no job can run on it",
			"start slurmd there, then scontrol update NodeName="+n.Name+" State=RESUME")
		return found
	}

	if n.State != "idle" {
		add(true, "it is busy ("+n.State+"), so that it was not looked at from within", "")
		return found
	}

	text, err := ask(script, "srun", c.aside(n.Name, "statelab-check")...)
	if err != nil {
		if away(err) {
			err = errors.New("the controller does not answer")
		}

		add(false, "a job could not be started on it: "+firstLine(err.Error()),
			"look into the node's slurmd log")
		return found
	}

	return append(found, judgeNode(n, text, c.Scratch, shared)...)
}

// judgeNode reads what checkScript said on a node.
func judgeNode(n Node, text, scratch, shared string) (found []Finding) {
	add := func(ok bool, text, remedy string) {
		found = append(found, Finding{n.Name, ok, text, remedy})
	}
	said := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		said[name] = value
	}

	add(true, "ready: "+n.Kind()+", features "+strings.Join(n.Features, ","), "")
	if said["scratch"] == "" {
		add(false, "the scratch folder "+scratch+" cannot be written",
			"--scratch DIR, a folder on the node's own disk")
	} else if kind := said["kind"]; kind != "" {
		add(false,
			"the scratch folder "+scratch+" is on "+kind+", not on a disk of the node's own",
			"--scratch DIR, a folder on the node's own disk")
	}

	if said["sha256sum"] == "" {
		add(false, "sha256sum is missing, with which jobs compare versions", "install coreutils")
	}

	if said["shared"] == "" {
		add(true, "it does not see "+shared+": results come back over the network, one srun step "+
			"for each run", "")
	}

	if said["program"] == "" {
		add(true, "it has no copy of this statelab at the same path: sbcast delivers it", "")
	}

	if said["root"] == "" {
		add(true, "jobs run as an ordinary user: memory budgets (--memory) need a delegated "+
			"control group or root, and are reported as not held otherwise", "")
	}

	return found
}

// judgeSettings reads `scontrol show config`.
func judgeSettings(text string) (found []Finding) {
	value := map[string]string{}
	for line := range strings.Lines(text) {
		if name, v, is := strings.Cut(line, " = "); is {
			value[strings.TrimSpace(name)] = strings.TrimSpace(v)
		}
	}

	add := func(text string) {
		found = append(found, Finding{Where: ofCluster, OK: true, Text: text})
	}
	add("Slurm " + value["SLURM_VERSION"] + ", cluster " + value["ClusterName"])
	if value["JobRequeue"] == "0" {
		add("JobRequeue is 0 in slurm.conf; runs ask for --requeue themselves")
	}

	if strings.Contains(value["SelectType"], "linear") {
		add("SelectType is select/linear: every job has a whole node")
	}

	if !strings.Contains(value["TaskPlugin"], "cgroup") &&
		!strings.Contains(value["TaskPlugin"], "affinity") {
		add("TaskPlugin is " + value["TaskPlugin"] + ": Slurm does not bind jobs to processors " +
			"and does not limit their memory; alone on a node (--exclusive) " +
			"nothing else runs there")
	}

	if value["ConstrainRAMSpace"] == "yes" {
		add("Slurm limits the memory of jobs (ConstrainRAMSpace): --sbatch=--mem=0 asks for all " +
			"of a node's; --memory holds within that limit")
	}

	return found
}

// Clean removes what a batch's tasks have left on the nodes for each other. The error names
// what could not be removed.
func (c Cluster) Clean(folder string, nodes []string) error {
	errs := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() {
			script := fmt.Sprintf("rm -rf %s/statelab-$(id -u)-${SLURMD_NODENAME:-$(hostname)}/%s",
				quote(c.Scratch), Name(folder))
			if _, err := ask(script, "srun", c.aside(n, "statelab-clean")...); err != nil {
				errs[i] = fmt.Errorf("databases are left on %s in %s/statelab-*/%s: %s", n,
					c.Scratch, Name(folder), firstLine(err.Error()))
			}
		})
	}

	group.Wait()
	return errors.Join(errs...)
}

// aside are srun's arguments for a short shell script on a node, if that is free.
func (c Cluster) aside(node, name string) []string {
	args := []string{"--nodelist=" + node, "--nodes=1", "--ntasks=1", "--immediate=20", "--quiet",
		"--chdir=/", "--job-name=" + name}
	if c.Partition != "" {
		args = append(args, "--partition="+c.Partition)
	}
	return append(append(args, c.Submit...), "/bin/sh", "-s")
}
