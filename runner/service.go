package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/statelab/statelab/internal/plan/remote"
	"github.com/statelab/statelab/result"
)

// maxSpecBytes bounds what is read from the planner.
const maxSpecBytes = 16 << 20

var errInterrupted = errors.New("interrupted")

// service is what a runner does for one kind of thing: engines, trees or layouts.
// Item is the adapter, Spec what the planner says of a run, Question what it asks
// about options.
type service[Item, Spec, Question any] struct {
	word  string // "engine", "tree", "layout"
	items []Item
	name  func(Item) string

	schema   string                            // of the specs this runner reads
	read     func(*Spec) (schema, name string) // what a spec says of itself
	run      func(context.Context, Item, *Spec, result.Tell) error
	describe func(*remote.Description, Item)
	asked    func(*Question) (name string)
	check    func(Item, *Question) []error
	// more are questions that only this kind answers.
	more map[string]func(ctx context.Context, in io.Reader, out io.Writer) error
}

// serve answers a question, or carries out the spec on in where none is asked, and
// returns the exit code: 0 done, 1 failed or interrupted, 2 a spec that cannot be
// run.
func (s *service[Item, Spec, Question]) serve(question string, in io.Reader, out, words io.Writer) int {
	ctx, stop := interruptible()
	defer stop()
	answer, special := s.more[question]
	var err error
	switch {
	case question == "":
		return s.carryOut(ctx, in, out, words)
	case question == remote.DescribeArg:
		err = s.answerDescribe(out)
	case question == remote.CheckArg:
		err = s.answerCheck(in, out)
	case special:
		err = answer(ctx, in, out)
	default:
		err = fmt.Errorf("no question %q: a runner is started by statelab, not by hand", question)
	}
	if err != nil {
		fmt.Fprintln(words, "runner:", err)
		return 1
	}
	return 0
}

func (s *service[Item, Spec, Question]) carryOut(ctx context.Context, in io.Reader, events, words io.Writer) int {
	spec := new(Spec)
	if err := decode(in, spec); err != nil {
		fmt.Fprintf(words, "runner: read the spec: %v (a runner is started by statelab, not by hand)\n", err)
		return 2
	}
	schema, name := s.read(spec)
	if schema != s.schema {
		fmt.Fprintf(words, "runner: the spec has schema %q, this runner reads %q: use runner and statelab of one version\n", schema, s.schema)
		return 2
	}
	item, err := s.find(name)
	if err != nil {
		fmt.Fprintf(words, "runner: %v\n", err)
		return 2
	}
	if err := s.run(ctx, item, spec, teller(events)); err != nil {
		fmt.Fprintln(words, err) // for the case that the run folder could not be written
		return 1
	}
	return 0
}

func (s *service[Item, Spec, Question]) answerDescribe(out io.Writer) error {
	d := remote.Description{Schema: remote.DescriptionSchema}
	for _, item := range s.items {
		s.describe(&d, item)
	}
	return json.NewEncoder(out).Encode(d)
}

func (s *service[Item, Spec, Question]) answerCheck(in io.Reader, out io.Writer) error {
	question := new(Question)
	if err := decode(in, question); err != nil {
		return fmt.Errorf("read the options to check: %w", err)
	}
	item, err := s.find(s.asked(question))
	if err != nil {
		return err
	}
	mistakes := []string{}
	for _, wrong := range s.check(item, question) {
		mistakes = append(mistakes, wrong.Error())
	}
	return json.NewEncoder(out).Encode(mistakes)
}

func (s *service[Item, Spec, Question]) find(name string) (found Item, err error) {
	var names []string
	for _, item := range s.items {
		if s.name(item) == name {
			return item, nil
		}
		names = append(names, s.name(item))
	}
	return found, fmt.Errorf("no %s %q here, only %s", s.word, name, strings.Join(names, ", "))
}

func decode(in io.Reader, v any) error {
	return json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(v)
}

// asked is the question on this program's command line; "" asks for a run.
func asked() string { return strings.Join(os.Args[1:], " ") }

// interruptible is a context that an interrupt ends, however often it comes.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case <-interrupts:
				cancel(errInterrupted)
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(interrupts)
		cancel(nil)
	}
}

// teller writes events as JSON lines. A planner that is gone is no reason to
// lose the run.
func teller(w io.Writer) result.Tell {
	var mutex sync.Mutex
	lines := json.NewEncoder(w)
	gone := false
	return func(e result.Event) {
		mutex.Lock()
		defer mutex.Unlock()
		if !gone {
			gone = lines.Encode(e) != nil
		}
	}
}
