package slurm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/result"
)

// Fan is work that is divided among nodes and put together again, to the byte.
type Fan struct {
	Part  setting.Value[engine.Part] // what a node does; none: all of it
	Merge bool                       // put parts together

	where                       setting.Value[setting.Target]
	constraint, scratch, submit experiment.Text
	parts, nodes                experiment.Int
}

// Flags declares the flags; part and merge say what those of a part are for, "" where there are
// none.
func (f *Fan) Flags(flags *pflag.FlagSet, part, merge string) {
	if part != "" {
		setting.Var(flags, &f.Part, partKind, "part", "", part)
		flags.BoolVar(&f.Merge, "merge", false, merge)
	}

	setting.Var(flags, &f.where, onNodes, "on", "", "divide the work among the nodes of a "+
		"cluster: slurm or slurm:PARTITION")
	setting.Var(flags, &f.constraint, setting.Text, "constraint", "",
		"with --on: a feature of the nodes, or several joined by &")
	setting.Var(flags, &f.scratch, setting.Text, "scratch", "/tmp",
		"with --on: folder on the nodes' own disks")
	setting.ListVar(flags, &f.submit, setting.Text, "sbatch", "", "with --on: further arguments "+
		"of sbatch, separated by commas")
	setting.Var(flags, &f.parts, setting.Int(1, 1000, "4").Optional(), "parts", "",
		"with --on: into how many parts the work is divided (default: the free nodes' number of "+
			"processors)")
	setting.ListVar(flags, &f.nodes, setting.Int(1, 1000, "1,2,4").Optional(), "nodes", "",
		"with --on: do the work once on each of these numbers of nodes, and print speed-up and "+
			"efficiency (example: 1,2,4)")
}

// partKind reads K/N.
var partKind = setting.Kind[engine.Part]{Parse: func(text string) (p engine.Part, err error) {
	number, of, ok := strings.Cut(text, "/")
	var errNumber, errOf error
	p.Number, errNumber = strconv.Atoi(number)
	p.Of, errOf = strconv.Atoi(of)
	if !ok || cmp.Or(errNumber, errOf) != nil || p.Number < 1 || p.Number > p.Of || p.Of > 100_000 {
		return engine.Part{}, &setting.Mistake{Text: "must be K/N, K from 1 to N (example: 2/4)"}
	}
	return p, nil
}}.Optional()

var onNodes = setting.Kind[setting.Target]{Parse: func(text string) (setting.Target, error) {
	place, err := setting.TargetKind.Parse(text)
	if err == nil && !place.Cluster {
		err = &setting.Mistake{Text: "must be slurm or slurm:PARTITION (example: --on slurm:fast)"}
	}
	return place, err
}}.Optional()

// On is where the work is divided, as typed; "" if it is not.
func (f *Fan) On() string { return f.where.String() }

// Check notes flags that contradict each other.
func (f *Fan) Check(m *setting.Mistakes) {
	switch {
	case !f.where.IsSet() && (f.parts.IsSet() || f.nodes.IsSet()):
		m.Add("--parts and --nodes need a cluster: add --on slurm")
	case f.where.IsSet() && f.Part.IsSet():
		m.Add("--on %s: divides the work itself: remove --part", f.On())
	}
}

// Parted are a command line for each part.
func Parted(parts int, args ...string) (commands [][]string) {
	for i := range parts {
		commands = append(commands,
			append(args[:len(args):len(args)], fmt.Sprintf("--part=%d/%d", i+1, parts)))
	}
	return commands
}

// Each are a command line for each value of a flag, with the other flags that were given. Paths are
// made absolute, and what belongs to the answer or to the cluster stays here.
func Each(
	verb, flag string, values []string, given *pflag.FlagSet, paths []string, here ...string,
) (commands [][]string) {
	here = append(here, flag, "json", "on", "constraint", "scratch", "sbatch", "parts", "nodes")
	for _, value := range values {
		args := []string{verb, "--json", "--" + flag + "=" + value}
		given.Visit(func(other *pflag.Flag) {
			values := []string{other.Value.String()}
			if path, err := filepath.Abs(values[0]); err == nil &&
				slices.Contains(paths, other.Name) {
				values[0] = path
			}

			if options, is := other.Value.(*setting.Options); is {
				values = options.Texts() // the flag is given once for each
			}

			if slices.Contains(here, other.Name) {
				return
			}

			for _, value := range values {
				args = append(args, "--"+other.Name+"="+value)
			}
		})

		commands = append(commands, args)
	}

	return commands
}

// MadeDir is the folder that a part makes in its work folder.
const MadeDir = "out"

// MadePath is the path of a file that a part makes there.
func MadePath(name string) string { return filepath.Join(Work, MadeDir, name) }

// Division is what is divided.
type Division struct {
	Verb     string
	Out      string   // folder for the results of the parts; removed in the end
	Programs []string // that the nodes need
	// Commands are a command line for each of a number of parts.
	Commands func(parts int) [][]string
	// Use takes the folders that the parts made, in the order of the commands.
	Use func(folders []string) error
}

// Divide has the nodes carry out a command line each, and hands the results over. With --nodes
// the work is done several times, and the last results count.
func (f *Fan) Divide(ctx context.Context, d Division, p *console.Progress) error {
	c, parts, on, err := f.cluster(d.Programs)
	if err != nil {
		return err
	}

	commands := d.Commands(parts)
	var efforts []Effort
	for i, nodes := range on {
		e, folders, err := f.onNodes(ctx, c, d, nodes, commands, p)
		if err != nil {
			return err
		}

		if i == len(on)-1 {
			if err := d.Use(folders); err != nil {
				return err
			}
		}

		if err := os.RemoveAll(d.Out); err != nil {
			return err
		}

		efforts = append(efforts, e)
	}

	if !f.nodes.IsSet() {
		p.Printf("%v", efforts[0])
		return nil
	}

	p.Printf("%s", EffortHead)
	for _, e := range efforts {
		p.Printf("%s", e.Against(efforts[0]))
	}

	return nil
}

// cluster is the cluster, into how many parts to divide, and the nodes that may work for each
// of --nodes, none for all.
func (f *Fan) cluster(programs []string) (c Cluster, parts int, on [][]string, err error) {
	c = Cluster{
		Partition: f.where.Value().Partition,
		Submit:    f.submit.All(),
		Scratch:   f.scratch.Value(),
		Programs:  programs,
	}

	nodes, err := Nodes(c.Partition)
	if err != nil {
		return c, 0, nil, err
	}

	if err := HasClass(nodes, f.constraint.Value()); err != nil {
		return c, 0, nil, setting.Usage("--constraint: %v", err)
	}

	ready := Ready(nodes, f.constraint.Value())
	for _, n := range f.nodes.All() {
		if n > len(ready) {
			return c, 0, nil, setting.Usage("--nodes %d: %s can run a job now", n,
				unit.Plural(len(ready), "node"))
		}

		on = append(on, ready[:n])
	}

	if len(on) == 0 {
		on = [][]string{nil}
	}

	return c, cmp.Or(f.parts.Value(), Processors(nodes, f.constraint.Value())), on, nil
}

// onNodes carries out commands on some nodes.
func (f *Fan) onNodes(ctx context.Context, c Cluster, d Division, nodes []string,
	commands [][]string,
	p *console.Progress) (e Effort, folders []string, err error) {
	b := Batch{Cluster: c, Folder: filepath.Join(d.Out, JobsDir)}
	for i, args := range commands {
		folders = append(folders, filepath.Join(d.Out, result.PointsDir, fmt.Sprintf("%03d", i)))
		b.Numbers = append(b.Numbers, i)
		b.Tasks = append(b.Tasks, Task{
			Label:   fmt.Sprintf("part %d of %d", i+1, len(commands)),
			Args:    args,
			Answers: true,
			Shares:  true,
			Class:   f.constraint.Value(),
			Nodes:   nodes,
			From:    MadeDir,
			To:      folders[i],
		})
	}

	began := time.Now()
	err = b.Do(ctx, func(u Update) {
		if u.Note != "" {
			p.Printf("%s", u.Note)
		}

		p.Report("", result.Event{
			Phase: d.Verb,
			Done:  uint64(u.Ended),
			Total: uint64(len(commands)),
			Unit:  "parts",
			Note:  fmt.Sprintf("%d running", u.Running),
		})
	})

	p.Done()
	if err != nil {
		return e, nil, err
	}

	e = EffortOf(b.Tasks, time.Since(began))
	e.Nodes = cmp.Or(len(nodes), e.Nodes)
	for i, folder := range folders {
		if _, well := EndedWell(folder); !well {
			words, _ := os.ReadFile(filepath.Join(b.Folder, strconv.Itoa(i)+".err"))
			return e, nil, fmt.Errorf("%s failed on %s: %s", b.Tasks[i].Label, NodeOf(folder),
				strings.TrimSpace(string(words)))
		}
	}

	return e, folders, nil
}

// Files are the paths of one file in each of folders.
func Files(folders []string, name string) (paths []string) {
	for _, folder := range folders {
		paths = append(paths, filepath.Join(folder, name))
	}
	return paths
}
