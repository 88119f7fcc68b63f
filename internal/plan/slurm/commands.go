package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/plan/runners"
)

// Slurm's programs are asked in a form of our choice, never in the one for people: their
// output is `-o` with separators that no name holds.

// answerWithin is how long one of Slurm's programs may take.
const answerWithin = 60 * time.Second

// longestAnswer bounds what is read of one.
const longestAnswer = 64 << 20

// away is the failure of a controller that could not be reached; it may come back.
func away(err error) bool { return engine.CodeOf(err) == engine.CodeAway }

// ask runs one of Slurm's programs with text on its standard input.
func ask(text, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "SLURM_TIME_FORMAT=standard", "LC_ALL=C")
	command.Stdin = strings.NewReader(text)
	// In a group of its own: Ctrl-C is for statelab. What is killed is not to submit later.
	runners.Apart(command)
	var words bytes.Buffer
	command.Stderr = &words
	answer, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("%s is not installed here: statelab needs Slurm's programs on the machine that it starts jobs from "+
				"(Debian: apt install slurm-client)", name)
		}
		return "", fmt.Errorf("start %s: %w", name, err)
	}
	out, err := io.ReadAll(io.LimitReader(answer, longestAnswer))
	if err = errors.Join(err, command.Wait()); err == nil {
		return string(out), nil
	}
	said := strings.TrimSpace(words.String())
	if ctx.Err() != nil {
		return "", engine.Fail(engine.CodeAway, "%s did not answer in time", name)
	}
	if failure.Slurm(said) == engine.CodeAway {
		return "", engine.Fail(engine.CodeAway, "%s", firstLine(said))
	}
	if said == "" {
		said = err.Error()
	}
	return string(out), engine.Fail("", "%s: %s", name, said).With("run this on a machine of the cluster, where %s works", name)
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
	text, err := ask("", "squeue", "--noheader", "--array", "--name="+name, "--user="+userName(), "--format=%A|%K|%t|%N|%n|%r")
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
		r := &row{fields[0], fields[2], fields[3], fields[5], strings.TrimPrefix(fields[4], "(null)")}
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
	return strings.HasSuffix(n.State, "*") || slices.ContainsFunc(bad, func(state string) bool { return strings.HasPrefix(n.State, state) })
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
		return nil, fmt.Errorf("the cluster has no default partition: name one, --on slurm:PARTITION (partitions: %s)", strings.Join(unique(others), ", "))
	}
	return nil, fmt.Errorf("the cluster has no partition %q (partitions: %s)", partition, strings.Join(unique(others), ", "))
}

func downNodes() (names []string) {
	text, err := ask("", "sinfo", "--noheader", "--Node", "--format=%N|%t")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		name, state, _ := strings.Cut(strings.TrimSpace(line), "|")
		if (Node{State: state}).Down() {
			names = append(names, name)
		}
	}
	return names
}
