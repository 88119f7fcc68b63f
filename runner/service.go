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

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
)

var errInterrupted = errors.New("interrupted")

// service is what a runner does for one kind of thing: engines, trees or layouts.
// Item is the adapter, Spec what the planner says of a run, Question what it asks
// about options.
type service[
	Item adapter[Info],
	Info protocol.Info,
	Spec protocol.Spec,
	Question protocol.Question,
] struct {
	items    []Item
	schema   string // of the specs this runner reads
	run      func(context.Context, Item, *Spec, result.EventFunc) (*result.Run, error)
	describe func(*protocol.Description, Item)
	check    func(Item, Question) []error
	// more are questions that only this kind answers.
	more map[string]func(ctx context.Context, in io.Reader, out io.Writer) error
}

// adapter is what engines, trees and layouts have in common.
type adapter[Info protocol.Info] interface{ Info() Info }

// serve answers a question, or carries out the spec on in where none is asked, and
// returns the exit code: 0 done, 1 failed or interrupted, 2 a spec that cannot be
// run.
func (s *service[Item, Info, Spec, Question]) serve(
	question string, in io.Reader, out, words io.Writer,
) int {
	ctx, stop := interruptible()
	defer stop()
	answer, special := s.more[question]
	var err error
	switch {
	case question == "":
		return s.carryOut(ctx, in, out, words)
	case question == protocol.Describe:
		err = s.answerDescribe(out)
	case question == protocol.Check:
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

func (s *service[Item, Info, Spec, Question]) carryOut(
	ctx context.Context, in io.Reader, events, words io.Writer,
) int {
	tell := teller(events)
	failed := func(code int, err error) int {
		tell(result.Event{Failed: failure.From(err)})
		fmt.Fprintln(words, "runner:", err)
		return code
	}

	var spec Spec
	if err := protocol.Decode(in, &spec); err != nil {
		return failed(2,
			fmt.Errorf("read the spec: %w (a runner is started by statelab, not by hand)", err))
	}

	head := spec.Head()
	if head.Schema != s.schema {
		return failed(2,
			engine.Fail(engine.CodeUnsupported, "the spec has schema %q, this runner reads %q: "+
				"use runner and statelab of one version",
				head.Schema, s.schema))
	}

	item, err := s.find(head.Subject)
	if err != nil {
		return failed(2, err)
	}

	if _, err := s.run(ctx, item, &spec, tell); err != nil {
		return failed(1, err) // for the case that the run folder could not be written
	}

	return 0
}

func (s *service[Item, Info, Spec, Question]) answerDescribe(out io.Writer) error {
	d := protocol.Description{Schema: schema.Runner}
	for _, item := range s.items {
		s.describe(&d, item)
	}
	return json.NewEncoder(out).Encode(d)
}

func (s *service[Item, Info, Spec, Question]) answerCheck(in io.Reader, out io.Writer) error {
	var question Question
	if err := protocol.Decode(in, &question); err != nil {
		return fmt.Errorf("read the options to check: %w", err)
	}

	item, err := s.find(question.Subject())
	if err != nil {
		return err
	}

	mistakes := []string{}
	for _, wrong := range s.check(item, question) {
		mistakes = append(mistakes, wrong.Error())
	}

	return json.NewEncoder(out).Encode(mistakes)
}

func (s *service[Item, Info, Spec, Question]) find(name string) (found Item, err error) {
	var word string
	var names []string
	for _, item := range s.items {
		kind, own, _ := protocol.Common(item.Info())
		if own == name {
			return item, nil
		}
		word, names = kind, append(names, own)
	}

	return found, fmt.Errorf("no %s %q here, only %s", word, name, strings.Join(names, ", "))
}

// asked is the question on this program's command line; "" asks for a run.
func asked() string { return strings.Join(os.Args[1:], " ") }

// interruptible is a context that an interrupt ends, however often it comes. So does
// a terminal that is closed, unless the runner was told to survive that (nohup).
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(interrupts, syscall.SIGHUP)
	}

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
func teller(w io.Writer) result.EventFunc {
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
