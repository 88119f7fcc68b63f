// Package plan carries out the points of an experiment: in which order, how often,
// what is measured already, and what came of the whole.
//
// Goals: repeats are interleaved, so that drift of the machine meets all points
// alike; what is finished stays finished through Ctrl-C, a kill or a full disk; a
// plan is ok if and only if every step has a run that is ok.
// Non-goals: what a point is and what its runs mean (sweep, replays, layouts);
// declaring experiments (experiment); starting processes (runners).
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/result"
)

// Executor carries jobs out on this machine. The run that it returns is in the job's
// folder, too; the error is for what kept the job from being started or its result from
// being stored.
type Executor interface {
	Do(ctx context.Context, job runners.Job, tell result.EventFunc) (*result.Run, error)
}

// Point is one setting of every axis.
type Point struct {
	Name  string // of its folder
	Label string // for people; may be empty where there is one point
	Class string // hardware that it asks for; empty: any
}

// RemoteExecutor carries steps out on other machines, several at a time. What came of a step
// is in its folder when ended is called, by one goroutine; the error names the steps that
// left nothing.
type RemoteExecutor interface {
	Execute(
		ctx context.Context, steps []Remote, tell func(r Remote, running int, e result.Event),
		ended func(Remote),
	) error
}

// Remote is a step for another machine.
type Remote struct {
	Step
	Number int // of the step in the plan's order, which counts those that are measured too
	Point  Point
	Folder string // of the step
	Label  string
}

// Step is one repeat of one point; both count from 0.
type Step struct{ Point, Repeat int }

// Work is what differs between subjects. T is what came of a step.
type Work[T any] interface {
	Points() []Point
	// Stored reads what came of a step from its folder, ok or not; false if anything of
	// it is missing.
	Stored(folder string) (T, bool)
	// Measure carries a step out in its folder, which is relative to the plan's.
	Measure(ctx context.Context, step Step, folder string, tell result.EventFunc) (T, error)
	// Status of what came of a step.
	Status(T) string
	// Conclude writes the summary of what is measured so far.
	Conclude(done map[Step]T, so Outcome) error
}

// Outcome is how a plan stands.
type Outcome struct {
	Status string // of package result
	Error  string
	result.FailureInfo
	Again string // of failed runs: the command that measures them again
	Whole bool   // nothing was missing, so nothing was measured
}

// Plan is how the work is done.
type Plan struct {
	Out     string // folder of the results; exists
	Repeats int    // of a point, on all of its loads together
	Loads   int    // databases of a point, which its repeats read in turn; 0: one
	Seed    uint64 // of the order
	Resume  string // the command that goes on
	// Only is the number of the one step to measure; nil: all.
	Only *int
	// Remote is where the steps run; nil: here, one after the other.
	Remote RemoteExecutor
	// Now are the repeats that this call measures, so that plans can take turns; 0: all.
	Now int
	// Remaining are the seconds that are left, by those that the finished steps took and those
	// that the one at work has taken; nil: not known.
	Remaining func(finished []float64, running float64) float64
}

// Progress is what a plan is at; Step counts from 1.
type Progress struct {
	Step, Steps int
	Label       string
	// estimate for the rest of this step and those after it; 0: not known
	Left  time.Duration
	Event result.Event
}

// String is how far the plan is, for a line of progress.
func (at Progress) String() string {
	label := fmt.Sprintf("run %d of %d", at.Step, at.Steps)
	if at.Label != "" {
		label += " (" + at.Label + ")"
	}
	return label
}

// Run measures every step that is not finished. The error is for what kept the plan
// from going on; it is in the outcome, too.
func Run[T any](ctx context.Context, p Plan, w Work[T], tell func(Progress)) (Outcome, error) {
	points := w.Points()
	steps := Order(len(points), cmp.Or(p.Now, p.Repeats), p.Seed)
	if p.Only != nil {
		steps = steps[*p.Only : *p.Only+1]
	}

	done := map[Step]T{}
	for _, s := range steps {
		if found, ok := w.Stored(filepath.Join(p.Out, p.Folder(points, s))); ok &&
			w.Status(found) == result.OK {
			done[s] = found
		}
	}

	missing := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		_, ok := done[s]
		return ok
	})

	if err := w.Conclude(done, Outcome{Status: result.Interrupted}); err != nil {
		return p.stopped(err), err // better now than after an hour
	}

	carry := here[T]
	if p.Remote != nil {
		carry = elsewhere[T]
	}

	var err error
	if len(missing) > 0 {
		err = carry(ctx, p, w, len(steps), missing, done, tell)
	}

	if len(missing) > 0 && err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil // said by the outcome
	}

	by := map[string]int{} // steps by status
	for _, came := range done {
		by[w.Status(came)]++
	}

	so := p.outcome(ctx, len(steps), by, err)
	so.Whole = len(missing) == 0
	return so, errors.Join(err, w.Conclude(done, so))
}

// here measures steps on this machine, one after the other.
func here[T any](
	ctx context.Context, p Plan, w Work[T], steps int, missing []Step, done map[Step]T,
	tell func(Progress),
) error {
	points := w.Points()
	var took []float64 // by step, seconds
	var last summary
	for n, s := range missing {
		began := time.Now()
		if ctx.Err() != nil {
			break
		}

		at := Progress{Step: steps - len(missing) + n + 1, Steps: steps, Label: p.label(points, s)}
		came, err := w.Measure(ctx, s, p.Folder(points, s), func(e result.Event) {
			if at.Event = e; p.Remaining != nil && len(missing) == steps {
				at.Left = time.Duration(p.Remaining(took, time.Since(began).Seconds()) *
					float64(time.Second))
			}
			tell(at)
		})
		if err != nil {
			return err
		}

		took = append(took, time.Since(began).Seconds())
		if w.Status(came) != result.Interrupted || ctx.Err() == nil {
			done[s] = came
		}

		if n+1 < len(missing) {
			if err := last.write(func() error {
				return w.Conclude(done, Outcome{Status: result.Interrupted})
			}); err != nil {
				return err
			}
		}
	}

	return nil
}

// summary is when the summary of a plan that goes on was written last, and how long that took.
type summary struct {
	at   time.Time
	took time.Duration
}

// write has it written after every step, of many steps so rarely that it takes a
// twentieth of the time: it grows with the steps. Each step is in its own folder by then.
func (s *summary) write(conclude func() error) error {
	began := time.Now()
	if began.Sub(s.at) < 20*s.took {
		return nil
	}
	err := conclude()
	s.at = time.Now()
	s.took = s.at.Sub(began)
	return err
}

// elsewhere has steps measured on other machines.
func elsewhere[T any](
	ctx context.Context, p Plan, w Work[T], steps int, missing []Step, done map[Step]T,
	tell func(Progress),
) error {
	points := w.Points()
	var remote []Remote
	for n, s := range Order(len(points), p.Repeats, p.Seed) {
		if !slices.Contains(missing, s) {
			continue
		}
		remote = append(remote, Remote{Step: s, Number: n, Point: points[s.Point],
			Folder: filepath.Join(p.Out, p.Folder(points, s)), Label: p.label(points, s)})
	}

	began, ended := time.Now(), 0
	var concluding error
	var last summary
	err := p.Remote.Execute(ctx, remote, func(r Remote, running int, e result.Event) {
		at := Progress{
			Step:  steps - len(missing) + min(ended+running, len(missing)),
			Steps: steps,
			Label: r.Label,
			Event: e,
		}

		if ended > 0 {
			at.Left = time.Since(began) / time.Duration(ended) * time.Duration(len(missing)-ended)
		}

		tell(at)
	}, func(r Remote) {
		ended++
		if came, ok := w.Stored(r.Folder); ok {
			done[r.Step] = came
			if ended < len(missing) {
				concluding = errors.Join(concluding,
					last.write(func() error {
						return w.Conclude(done, Outcome{Status: result.Interrupted})
					}))
			}
		}
	})

	return errors.Join(err, concluding)
}

// Matrix lists the steps of a plan in their order, for those who start each with a command of
// its own.
func (p Plan) Matrix(points []Point) (steps []Listed) {
	for n, s := range Order(len(points), p.Repeats, p.Seed) {
		steps = append(steps, Listed{
			Number: n,
			Label:  p.label(points, s),
			Class:  points[s.Point].Class,
			Folder: p.Folder(points, s),
		})
	}

	return steps
}

// Numbered is the step with a number that Matrix lists, -1 if there is none, and the last one.
func (p Plan) Numbered(text string, points []Point) (step, last int) {
	last = len(points)*p.Repeats - 1
	step, err := strconv.Atoi(text)
	if err != nil || step > last {
		step = -1
	}
	return max(step, -1), last
}

// Listed is a step in a list for other programs.
type Listed struct {
	Number int    `json:"point"`
	Label  string `json:"label"`
	Class  string `json:"class,omitempty"`
	Folder string `json:"folder"`
}

// outcome: ok if and only if every step is.
func (p Plan) outcome(ctx context.Context, steps int, by map[string]int, err error) Outcome {
	switch {
	case err != nil:
		return p.stopped(err)
	case by[result.OK] == steps:
		return Outcome{Status: result.OK}
	case ctx.Err() != nil:
		return Outcome{Status: result.Interrupted,
			Error: fmt.Sprintf("interrupted with %d of %d runs finished; to continue: %s",
				by[result.OK], steps, p.Resume)}
	}

	return Outcome{
		Status: result.Failed,
		Error:  fmt.Sprintf("%d of %d runs failed", steps-by[result.OK], steps),
		Again:  p.Resume,
	}
}

// stopped is a plan that err ended.
func (p Plan) stopped(err error) Outcome {
	return Outcome{
		Status:      result.Failed,
		Error:       err.Error(),
		FailureInfo: result.NewFailureInfo(failure.From(err)),
		Again:       p.Resume,
	}
}

// Order interleaves repeats: a shuffled pass over the points, then the same pass
// backwards, and so on. With an even number of repeats every point has the same mean
// position, so a machine that slows down steadily slows them all alike; shuffling
// keeps a trend along an axis apart from a trend in time.
func Order(points, repeats int, seed uint64) []Step {
	pass := rand.New(rand.NewPCG(seed, 0)).Perm(points)
	var steps []Step
	for repeat := range repeats {
		for _, point := range pass {
			steps = append(steps, Step{point, repeat})
		}
		slices.Reverse(pass)
	}

	return steps
}

// Folder of a step, relative to the plan's.
func (p Plan) Folder(points []Point, s Step) string {
	name := points[s.Point].Name
	if p.Repeats > 1 {
		name += fmt.Sprintf("-%d", s.Repeat)
	}
	return filepath.Join(result.PointsDir, name)
}

// Load is which of the databases of its point a step reads, from 0.
func (p Plan) Load(s Step) int { return s.Repeat % max(1, p.Loads) }

func (p Plan) label(points []Point, s Step) string {
	var parts []string
	if label := points[s.Point].Label; label != "" {
		parts = append(parts, label)
	}
	loads := max(1, p.Loads)
	if loads > 1 {
		parts = append(parts, fmt.Sprintf("load %d", p.Load(s)+1))
	}
	if p.Repeats > loads {
		parts = append(parts, fmt.Sprintf("repeat %d", s.Repeat/loads+1))
	}
	return strings.Join(parts, ", ")
}

// Entry is a tree or layout of a plan, with a profile and options of its own.
type Entry[Info any] struct {
	Label   string // as typed, with the options that vary
	Profile string
	Options map[string]string
	Info    Info
}

// FileName makes a label the name of a folder.
func FileName(label string) string { return unsafe.ReplaceAllString(label, "-") }

var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Claim makes dir a folder that the plan with results in owner may fill and remove:
// a new one, or one that it claimed before. A folder that is there already is refused
// whatever it holds: it is not this plan's to delete. The claim is a file beside the
// folder.
func Claim(dir, owner string) error {
	claim := claimOf(dir)
	if text, err := os.ReadFile(claim); err == nil {
		by := strings.TrimSpace(string(text))
		if by == owner {
			return nil
		}

		if by != "" {
			return fmt.Errorf("%s belongs to the results in %s: choose another --db", dir, by)
		}
		// Version 0.1.0 did not write claims whole: one without an owner says nothing.
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}

	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s exists and was not made by this experiment: choose another --db, "+
			"or move it away", dir)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}

	return output.Atomically(claim, func(f *os.File) error {
		_, err := fmt.Fprintln(f, owner)
		return err
	})
}

// Clear removes what a claimed folder holds.
func Clear(dir, owner string) error {
	if err := Claim(dir, owner); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Release removes a claimed folder and its claim.
func Release(dir, owner string) error {
	if err := Clear(dir, owner); err != nil {
		return err
	}
	return os.Remove(claimOf(dir))
}

func claimOf(dir string) string { return dir + ".statelab" }

// inspections is the folder in which a sweep looks at databases.
const inspections = "inspect"

// Undo removes what a command has put into the folder of its results before it measured: files
// that ours names, and the folder itself if the command made it. It reports whether it did; a
// folder that holds anything else stays.
func Undo(out string, ours []string, made bool) (bool, error) {
	errMeasured := errors.New("the folder holds results")
	err := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(out, path)
		switch {
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case entry.IsDir() && name == inspections:
			return fs.SkipDir
		case !entry.IsDir() && !slices.Contains(ours, name):
			return errMeasured
		}

		return nil
	})

	if errors.Is(err, errMeasured) {
		return false, nil
	}

	for _, name := range append([]string{inspections, result.PointsDir}, ours...) {
		err = errors.Join(err, os.RemoveAll(filepath.Join(out, name)))
	}

	if made && err == nil {
		err = os.Remove(out)
	}

	return err == nil, err
}
