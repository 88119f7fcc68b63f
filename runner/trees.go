package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/statelab/statelab/internal/changeset"
	"github.com/statelab/statelab/internal/remote"
	"github.com/statelab/statelab/internal/replay"
	"github.com/statelab/statelab/tree"
)

// Trees is Main for state trees: a binary for those that cannot be linked into
// the main one.
//
//	func main() { runner.Trees(mytree.Tree{}) }
func Trees(trees ...tree.Tree) {
	os.Exit(ServeTrees(strings.Join(os.Args[1:], " "), os.Stdin, os.Stdout, os.Stderr, trees))
}

// ServeTrees answers a question, or replays the spec on in where none is asked,
// and returns the exit code: 0 done, 1 failed or interrupted, 2 a spec that cannot
// be run.
func ServeTrees(question string, in io.Reader, events, words io.Writer, trees []tree.Tree) int {
	ctx, stop := interruptible()
	defer stop()
	var err error
	switch question {
	case remote.DescribeArg:
		err = describeTrees(events, trees)
	case remote.CheckArg:
		err = checkTree(in, events, trees)
	case remote.HarvestArg:
		err = harvest(ctx, in, events, trees)
	case "":
		return replayTree(ctx, in, events, words, trees)
	default:
		err = fmt.Errorf("no question %q: a runner is started by statelab, not by hand", question)
	}
	if err != nil {
		fmt.Fprintln(words, "runner:", err)
		return 1
	}
	return 0
}

func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(interrupts)
		cancel(nil)
	}
}

func replayTree(ctx context.Context, in io.Reader, events, words io.Writer, trees []tree.Tree) int {
	var spec replay.Spec
	if err := json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(&spec); err != nil {
		fmt.Fprintf(words, "runner: read the spec: %v (a runner is started by statelab, not by hand)\n", err)
		return 2
	}
	if spec.Schema != replay.SpecSchema {
		fmt.Fprintf(words, "runner: the spec has schema %q, this runner reads %q: use runner and statelab of one version\n", spec.Schema, replay.SpecSchema)
		return 2
	}
	t, err := findTree(trees, spec.Tree)
	if err != nil {
		fmt.Fprintf(words, "runner: %v\n", err)
		return 2
	}
	if _, err := replay.Run(ctx, t, &spec, teller(events)); err != nil {
		fmt.Fprintln(words, err) // for the case that the run folder could not be written
		return 1
	}
	return 0
}

func describeTrees(out io.Writer, trees []tree.Tree) error {
	d := remote.Description{Schema: remote.DescriptionSchema}
	for _, t := range trees {
		d.Trees = append(d.Trees, t.Info())
	}
	return json.NewEncoder(out).Encode(d)
}

func checkTree(in io.Reader, out io.Writer, trees []tree.Tree) error {
	var question remote.TreeQuestion
	if err := json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(&question); err != nil {
		return fmt.Errorf("read the options to check: %w", err)
	}
	t, err := findTree(trees, question.Tree)
	if err != nil {
		return err
	}
	mistakes := []string{}
	for _, wrong := range t.Check(question.Options()) {
		mistakes = append(mistakes, wrong.Error())
	}
	return json.NewEncoder(out).Encode(mistakes)
}

// harvest writes the changes that a tree's forest has kept as a container, beside
// its place first.
func harvest(ctx context.Context, in io.Reader, out io.Writer, trees []tree.Tree) (err error) {
	var order remote.HarvestOrder
	if err := json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(&order); err != nil {
		return fmt.Errorf("read what to harvest: %w", err)
	}
	t, err := findTree(trees, order.Tree)
	if err != nil {
		return err
	}
	harvester, can := t.(tree.Harvester)
	if !can {
		return fmt.Errorf("%s cannot harvest", order.Tree)
	}
	survey, err := harvester.Survey(ctx, order.Dir)
	if err != nil {
		return fmt.Errorf("survey %s: %w", order.Dir, err)
	}
	if order.Out == "" {
		return json.NewEncoder(out).Encode(remote.Harvested{Stores: survey.Stores, First: survey.First, Last: survey.Last})
	}
	first, last := max(order.First, survey.First), survey.Last
	if order.Last > 0 {
		last = min(order.Last, last)
	}
	if last < first {
		return fmt.Errorf("%s holds versions %d to %d: none of those asked for", order.Dir, survey.First, survey.Last)
	}
	f, err := os.CreateTemp(filepath.Dir(order.Out), "."+filepath.Base(order.Out)+".*")
	if err != nil {
		return err
	}
	err = writeHarvest(ctx, f, harvester, order, survey, first, last)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), order.Out)
	}
	if err != nil {
		return fmt.Errorf("harvest %s: %w", order.Dir, errors.Join(err, os.Remove(f.Name())))
	}
	return json.NewEncoder(out).Encode(remote.Harvested{Stores: survey.Stores, First: first, Last: last})
}

// writeHarvest streams versions into a container: empty ones too, so that they stay
// aligned.
func writeHarvest(ctx context.Context, out io.Writer, from tree.Harvester, order remote.HarvestOrder, survey tree.Survey, first, last int64) error {
	w, err := changeset.NewWriter(out, changeset.Header{Order: changeset.OrderSortedNet,
		Provenance: fmt.Sprintf("harvested by %s from %s", order.Tree, filepath.Base(order.Dir))})
	if err != nil {
		return err
	}
	for _, name := range survey.Stores { // the empty ones too: they have roots
		if _, err := w.Store(name); err != nil {
			return err
		}
	}
	at := first - 1
	upTo := func(version int64) error {
		for at < version {
			if at >= first {
				if err := w.End(changeset.Roots{}); err != nil {
					return err
				}
			}
			at++
			if err := w.Begin(at); err != nil {
				return err
			}
		}
		return nil
	}
	err = from.Harvest(ctx, order.Dir, first, last, func(version int64, store string, c tree.Change) error {
		if version < at || version > last {
			return fmt.Errorf("version %d came after %d, of %d to %d", version, at, first, last)
		}
		if err := upTo(version); err != nil {
			return err
		}
		number, err := w.Store(store)
		if err != nil {
			return err
		}
		return w.Change(changeset.Change{Store: number, Key: c.Key, Value: c.Value, Delete: c.Delete})
	})
	if err != nil {
		return err
	}
	if err := upTo(last); err != nil {
		return err
	}
	return errors.Join(w.End(changeset.Roots{}), w.Close())
}

func findTree(trees []tree.Tree, name string) (tree.Tree, error) {
	var names []string
	for _, t := range trees {
		if t.Info().Name == name {
			return t, nil
		}
		names = append(names, t.Info().Name)
	}
	return nil, fmt.Errorf("no tree %q here, only %s", name, strings.Join(names, ", "))
}
