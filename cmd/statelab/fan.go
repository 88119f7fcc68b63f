package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/look"
	"github.com/statelab/statelab/internal/base/setting"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
)

// What is divided among nodes and put together again, to the byte.

// fan are the flags that say among which nodes.
type fan struct{ where, constraint, scratch, submit, parts, nodes string }

func fanFlags(cmd *cobra.Command) *fan {
	f := new(fan)
	flag := cmd.Flags()
	flag.StringVar(&f.where, "on", "", "divide the work among the nodes of a cluster: slurm or slurm:PARTITION")
	flag.StringVar(&f.constraint, "constraint", "", "with --on: a feature of the nodes, or several joined by &")
	flag.StringVar(&f.scratch, "scratch", "/tmp", "with --on: folder on the nodes' own disks")
	flag.StringVar(&f.submit, "sbatch", "", "with --on: further arguments of sbatch, separated by commas")
	flag.StringVar(&f.parts, "parts", "", "with --on: into how many parts the work is divided (default: the free nodes' number of processors)")
	flag.StringVar(&f.nodes, "nodes", "", "with --on: do the work once on each of these numbers of nodes, and print speed-up and efficiency (example: 1,2,4)")
	return f
}

func (f *fan) check(m *mistakes) {
	before := len(m.Found)
	if where := parse(m, "on", f.where, setting.Where); f.where != "" && !where.Cluster && len(m.Found) == before {
		m.At("on", f.where, "must be slurm or slurm:PARTITION (example: --on slurm:fast)")
	}
	if f.parts != "" {
		parse(m, "parts", f.parts, setting.Int(1, 1000, "4"))
	}
	for _, n := range list(f.nodes) {
		parse(m, "nodes", n, setting.Int(1, 1000, "1,2,4"))
	}
	if f.where == "" && cmp.Or(f.parts, f.nodes) != "" {
		m.add("--parts and --nodes need a cluster: add --on slurm")
	}
}

// cluster is the cluster, into how many parts to divide, and the nodes that may work for each
// of --nodes, none for all.
func (f *fan) cluster(programs []string) (c slurm.Cluster, parts int, on [][]string, err error) {
	_, partition, _ := strings.Cut(f.where, ":")
	c = slurm.Cluster{Partition: partition, Submit: list(f.submit), Scratch: f.scratch, Programs: programs}
	nodes, err := slurm.Nodes(partition)
	if err != nil {
		return c, 0, nil, err
	}
	if err := slurm.HasClass(nodes, f.constraint); err != nil {
		return c, 0, nil, usage("--constraint: %v", err)
	}
	ready := slurm.Ready(nodes, f.constraint)
	for _, text := range list(f.nodes) {
		n, err := strconv.Atoi(text)
		if err != nil || n > len(ready) {
			return c, 0, nil, usage("--nodes %s: %s can run a job now", text, plural(len(ready), "node"))
		}
		on = append(on, ready[:n])
	}
	if len(on) == 0 {
		on = [][]string{nil}
	}
	if f.parts != "" {
		parts, err = strconv.Atoi(f.parts)
		return c, parts, on, err
	}
	return c, slurm.Processors(nodes, f.constraint), on, nil
}

// divide has the nodes carry out a command line each, and hands over the folders that they
// made, in the order of the commands: AnswerFile in each is what a command printed. command
// makes those of a number of parts; with --nodes the work is done several times, and the last
// results count.
func (a *app) divide(f *fan, verb string, command func(parts int) [][]string, use func(folders []string) error) error {
	c, parts, on, err := f.cluster(a.programs())
	if err != nil {
		return err
	}
	commands, p := command(parts), a.progress()
	var efforts []slurm.Effort
	for i, nodes := range on {
		out := outFolder("", verb)
		e, folders, err := a.onNodes(f, c, verb, out, nodes, commands)
		if err != nil {
			return err
		}
		if i == len(on)-1 {
			if err := use(folders); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
		efforts = append(efforts, e)
	}
	if f.nodes == "" {
		p.Say("%v", efforts[0])
		return nil
	}
	p.Say("%s", slurm.EffortHead)
	for _, e := range efforts {
		p.Say("%s", e.Against(efforts[0]))
	}
	return nil
}

// onNodes carries out commands on some nodes, with its files below out.
func (a *app) onNodes(f *fan, c slurm.Cluster, verb, out string, nodes []string, commands [][]string) (e slurm.Effort, folders []string, err error) {
	b := slurm.Batch{Cluster: c, Folder: filepath.Join(out, slurm.JobsDir)}
	for i, args := range commands {
		folders = append(folders, filepath.Join(out, result.PointsDir, fmt.Sprintf("%03d", i)))
		b.Numbers = append(b.Numbers, i)
		b.Tasks = append(b.Tasks, slurm.Task{Label: fmt.Sprintf("part %d of %d", i+1, len(commands)), Args: args, Answers: true, Shares: true, Class: f.constraint,
			Nodes: nodes, From: madeDir, To: folders[i]})
	}
	p := a.progress()
	began := time.Now()
	err = b.Do(a.ctx, func(u slurm.Update) {
		if u.Note != "" {
			p.Say("%s", u.Note)
		}
		p.Tell("", result.Event{Phase: verb, Done: uint64(u.Ended), Total: uint64(len(commands)), Unit: "parts", Note: fmt.Sprintf("%d running", u.Running)})
	})
	p.Done()
	if err != nil {
		return e, nil, err
	}
	e = slurm.EffortOf(b.Tasks, time.Since(began))
	e.Nodes = cmp.Or(len(nodes), e.Nodes)
	for i, folder := range folders {
		if _, well := slurm.EndedWell(folder); !well {
			words, _ := os.ReadFile(filepath.Join(b.Folder, strconv.Itoa(i)+".err"))
			return e, nil, fmt.Errorf("%s failed on %s: %s", b.Tasks[i].Label, slurm.NodeOf(folder), strings.TrimSpace(string(words)))
		}
	}
	return e, folders, nil
}

// madeDir is the folder that a part makes in its work folder.
const madeDir = "out"

// answers are what the commands of folders printed.
func answers(folders []string) (texts [][]byte, err error) {
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, slurm.AnswerFile))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// predictOnNodes has the cache sizes predicted by nodes: each is one command.
func (a *app) predictOnNodes(f *predictFlags, flags *pflag.FlagSet) (points []result.PredictedPoint, err error) {
	command := func(int) (commands [][]string) {
		for _, size := range f.cache.Texts() {
			args := []string{"predict", "--json", "--cache=" + size}
			flags.Visit(func(flag *pflag.Flag) {
				switch value := flag.Value.String(); flag.Name {
				case "cache", "json", "out", "hardware", "on", "constraint", "scratch", "sbatch", "parts", "nodes":
				case "levels":
					args = append(args, "--levels="+absolute(value))
				default:
					args = append(args, "--"+flag.Name+"="+value)
				}
			})
			commands = append(commands, args)
		}
		return commands
	}
	err = a.divide(f.on, "predict", command, func(folders []string) error {
		texts, err := answers(folders)
		if err != nil {
			return err
		}
		for _, text := range texts {
			var p enginereport.Prediction
			if err := json.Unmarshal(text, &p); err != nil {
				return fmt.Errorf("read a node's prediction: %w", err)
			}
			points = append(points, p.Points...)
		}
		return nil
	})
	return points, err
}

// part reads K/N.
func (m *mistakes) part(text string) (p engine.Part) {
	if text == "" {
		return p
	}
	number, of, ok := strings.Cut(text, "/")
	var errNumber, errOf error
	p.Number, errNumber = strconv.Atoi(number)
	p.Of, errOf = strconv.Atoi(of)
	if !ok || cmp.Or(errNumber, errOf) != nil || p.Number < 1 || p.Number > p.Of || p.Of > 100_000 {
		m.add("--part %q: must be K/N, K from 1 to N (example: 2/4)", text)
	}
	return p
}

// inspectParts has nodes look at parts of a database that all of them see.
func (a *app) inspectParts(f *inspectFlags, on *fan, m *mistakes, args []string) error {
	on.check(m)
	if len(args) != 1 {
		m.add("name one database (example: statelab inspect DIR --on slurm)")
	}
	if err := m.err(); err != nil {
		return err
	}
	command := func(parts int) (commands [][]string) {
		for i := range parts {
			// Nodes look at the same time: nobody holds the database's lock.
			commands = append(commands, []string{"inspect", absolute(args[0]), "--json", "--ignore-lock", "--engine=" + f.engine,
				fmt.Sprintf("--part=%d/%d", i+1, parts)})
		}
		return commands
	}
	return a.divide(on, "inspect", command, func(folders []string) error {
		texts, err := answers(folders)
		if err != nil {
			return err
		}
		whole, err := look.Merge(texts)
		if err != nil {
			return err
		}
		whole.Source = args[0]
		return a.printInspection(f, &whole)
	})
}

// mergeParts prints the whole that the parts in files make.
func (a *app) mergeParts(f *inspectFlags, m *mistakes, paths []string) error {
	if len(paths) == 0 {
		m.add("--merge: name the files of all parts (statelab inspect DIR --part K/N --json > FILE makes one)")
	}
	if err := m.err(); err != nil {
		return err
	}
	var texts [][]byte
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		var text json.RawMessage
		err = protocol.Decode(file, &text)
		file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		texts = append(texts, text)
	}
	whole, err := look.Merge(texts)
	if err != nil {
		return err
	}
	return a.printInspection(f, &whole)
}
