// Package slurm carries tasks out on the nodes of a Slurm cluster: each is an element of a
// job array, on a node of its own, and what it made becomes a folder on this machine.
//
// Goals: Slurm decides where and when; whatever happens to a node, to the controller or to
// this process, a task's result is stored once or the task is still to be done.
// Non-goals: scheduling, accounts and limits (Slurm); what a task does (its arguments).
//
// Read in this order: slurm.go (a batch and its one loop), commands.go (Slurm's programs),
// element.go (what an element is, and its node's side).
package slurm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/result"
)

// Cluster is where tasks run.
type Cluster struct {
	Partition string   // "": the cluster's own default
	Submit    []string // further arguments of sbatch, such as --account=research
	Scratch   string   // folder on the nodes' own disks
	// Programs are this program and the runners that the tasks need, beside each other. A
	// node that has the same files at the same paths uses them; others get them by sbcast.
	Programs []string
}

// Task is one element of a job array.
type Task struct {
	Label string // for people
	// Args are those of statelab; Work and Scratch in them stand for folders on the node.
	Args []string
	// From is the folder that the task makes, in its work folder. It becomes To.
	From, To string
	Class    string   // a Slurm constraint; "": any node
	Nodes    []string // one of them; none: any
	Answers  bool     // its standard output is the result, AnswerFile
	Shares   bool     // other jobs may run on the node at the same time
	Together string   // tasks with the same word run on one node
	Node     string   // where tasks of Together ran before; "": nowhere yet
}

// Placeholders in the arguments of a task.
const (
	Work    = "{work}"
	Scratch = "{scratch}"
)

// Batch are tasks that are carried out together. Two of the same folder are one: what one
// began the next goes on with.
type Batch struct {
	Cluster
	Folder string            // of the batch's own files, below that of the results
	Files  map[string]string // name -> text, in every task's work folder
	Tasks  []Task
	// Numbers name the tasks, in the array and in Folder: the same in every batch of the folder.
	Numbers []int
}

// Update is what a batch is at.
type Update struct {
	Task                   int // the one that the event is of; -1: none
	Node                   string
	Event                  result.Event
	Note                   string // what happened on the cluster; "": nothing new
	Ended, Running, Queued int
	Finished               bool // the task has ended, and To is there
}

// Of a task that is no longer in the queue.
const (
	// resultWithin is how long its result may take to be seen over a shared file system.
	resultWithin = 4 * time.Second
	// fateWithin is how long a controller that does not answer is asked what became of it.
	fateWithin  = 40 * time.Second
	maxAttempts = 4
)

// Of an interrupt.
const graceful = 45 * time.Second

// task is a Task while it is carried out.
type task struct {
	*Task
	number    int
	submitted bool
	ended     bool
	failed    string // why there is no result
	row       *row   // in the queue; nil: not there
	lastJob   string // raw job id
	node      string
	missing   time.Time // since when it is not in the queue; zero: it is
	attempts  int
	log       follower
	logged    int64           // bytes of the log when Slurm was last asked
	served    map[string]bool // job starts that were given their programs
	freed     time.Time       // when Slurm was last asked to let it go on
	since     time.Time       // it runs, or has been asked for its result in vain
	alone     time.Duration   // for how long it was then left alone
	collects  bool
}

// batch is a Batch while it is carried out.
type batch struct {
	Batch
	name      string
	programs  []program
	tasks     []*task
	tell      func(Update)
	questions backoff
	silent    int // questions in a row that the controller did not answer
	avoid     []string
	apart     map[string]bool // nodes that results were collected from: they do not see our folders
	asked     map[string]bool // jobs that were interrupted
	came      chan collected
}

// Name is what the jobs of a folder are called: Slurm finds them by it, whoever submitted them.
func Name(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return "statelab-" + hex.EncodeToString(sum[:5])
}

// Do carries out the tasks of b that have no result yet, and goes on with those that an
// earlier process submitted. An error names every task that has no result in the end, or is
// the context's.
func (b Batch) Do(ctx context.Context, tell func(Update)) error {
	w := &batch{
		Batch: b,
		name:  Name(b.Folder),
		tell:  tell,
		came:  make(chan collected),
		apart: map[string]bool{},
		asked: map[string]bool{},
	}

	if err := w.prepare(); err != nil {
		return err
	}

	collecting, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	interrupt := ctx.Done()
	var last <-chan time.Time
	for {
		interrupted := ctx.Err() != nil // before it is asked what is in the queue
		if interrupted {
			w.questions.changed() // and each second, until what runs has stored what it has
		}

		asked, err := w.poll(collecting)
		if err != nil {
			return err
		}

		if !slices.ContainsFunc(w.tasks, func(t *task) bool { return !t.ended }) {
			w.settle()
			return errors.Join(w.removeCopies(), w.failures())
		}

		if interrupted {
			if !slices.ContainsFunc(w.tasks,
				func(t *task) bool { return t.row != nil && !t.ended }) {
				return context.Cause(ctx)
			}
			w.interrupt()
		} else if asked {
			if err := w.submit(); err != nil {
				return err
			}
		}

		select {
		case <-tick.C:
		case c := <-w.came:
			w.collected(c)
		case <-interrupt:
			interrupt, last = nil, time.After(graceful)
		case <-last:
			w.stop(w.jobs(func(*row) bool { return true }))
			return context.Cause(ctx)
		}
	}
}

// prepare makes the batch's folder and finds out what is there already.
func (w *batch) prepare() error {
	if err := os.MkdirAll(w.Folder, 0o755); err != nil {
		return fmt.Errorf("make the folder for Slurm: %w", err)
	}

	var err error
	if w.programs, err = programs(w.Programs); err != nil {
		return err
	}

	for i := range w.Tasks {
		t := &task{
			Task:   &w.Tasks[i],
			number: w.Numbers[i],
			served: map[string]bool{},
			node:   w.Tasks[i].Node,
		}

		t.log.path = w.log(t, ".log")
		if end, err := readEnd(t.To); err == nil && end.Exit != 0 {
			if err := os.Remove(filepath.Join(t.To, EndFile)); err != nil { // of an earlier try
				return err
			}
		}

		w.tasks = append(w.tasks, t)
	}

	return nil
}

func (w *batch) log(t *task, kind string) string {
	return filepath.Join(w.Folder, fmt.Sprint(t.number)+kind)
}

// poll looks at what the tasks have left, and asks Slurm where they are if that is due. asked:
// Slurm has answered.
func (w *batch) poll(collecting context.Context) (asked bool, err error) {
	if w.questions.due(time.Now()) {
		asked = w.askQueue()
	}

	for _, t := range w.tasks {
		if t.ended {
			continue
		}

		if end, err := readEnd(t.To); err == nil {
			w.end(t, end.Node)
			continue
		}

		switch {
		case t.row == nil && t.submitted:
			if !asked {
				continue
			}
			if err := w.missing(t); err != nil {
				return asked, err
			}
		case t.row == nil:
		case t.row.state == "R":
			w.follow(collecting, t)
		case t.log.size() > t.logged: // it has begun since Slurm was asked
			w.questions.changed()
		case t.row.state == "PD" && asked:
			w.letGo(t)
		}
	}

	return asked, nil
}

// askQueue asks Slurm where all tasks are, in one question; false: it does not answer.
func (w *batch) askQueue() bool {
	rows, err := queue(w.name)
	w.questions.asked(time.Now())
	if err != nil {
		if w.silent++; w.silent == 3 {
			w.note("Slurm's controller does not answer (" + err.Error() + "); running points go on")
		}
		return false
	}

	if w.silent >= 3 {
		w.note("Slurm's controller answers again")
	}

	w.silent = 0
	for _, t := range w.tasks {
		if !t.ended && w.seen(t, rows[t.number]) {
			w.questions.changed()
		}
	}

	return true
}

// seen notes where t is in the queue, nil if it is not there. changed: more is to be expected soon.
func (w *batch) seen(t *task, now *row) (changed bool) {
	before := t.row
	t.row, t.logged = now, t.log.size()
	if now == nil {
		if t.submitted && t.missing.IsZero() {
			t.missing = time.Now()
		}
		return t.submitted && !t.collects // its result is near, or it is lost
	}

	t.submitted, t.missing, t.lastJob = true, time.Time{}, now.job
	if now.node != "" {
		t.node = now.node
	}

	if now.state == "R" && (before == nil || before.state != "R") {
		t.since = time.Now()
	}

	return before == nil || before.job != now.job || before.state != now.state ||
		before.node != now.node
}

// end: the result of t is there. Others may have waited for it.
func (w *batch) end(t *task, node string) {
	w.questions.changed()
	t.ended, t.row, t.failed = true, nil, ""
	t.node = cmp.Or(node, t.node)
	w.update(Update{Task: slices.Index(w.tasks, t), Node: t.node, Finished: true})
}

// missing is called for a task that has left the queue without a result in sight.
func (w *batch) missing(t *task) error {
	gone := time.Since(t.missing)
	if gone < resultWithin || t.collects && gone < patience { // what was sent is being stored
		return nil
	}

	became, err := fate(t.lastJob, w.name, t.number)
	if err != nil && gone < fateWithin { // the controller may be away
		return nil
	}

	where := ""
	if t.node != "" {
		where = " on " + t.node
	}

	switch became {
	case "", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REQUEUED":
		// The controller lost it, or it cannot be requeued: it is submitted again.
		t.submitted, t.missing = false, time.Time{}
		if t.attempts < maxAttempts {
			w.note(fmt.Sprintf("%s left no result%s (%s): submitted again", t.Label, where,
				cmp.Or(strings.ToLower(became), "Slurm does not know it any more")))
			return nil
		}
		became = fmt.Sprintf("it left no result %d times", t.attempts)
	}

	t.ended, t.failed = true, strings.ToLower(became)+where
	if words := lastLine(w.log(t, ".err")); words != "" {
		t.failed += ": " + words
	}

	return nil
}

// letGo lets a task go on that Slurm holds back for a time after a node failed, or for
// good after it could not be started; one whose node is gone goes elsewhere.
func (w *batch) letGo(t *task) {
	if time.Since(t.freed) < 5*time.Second {
		return
	}

	switch reason := t.row.reason; {
	case strings.Contains(reason, "launch") && strings.Contains(reason, "held"):
		t.freed = time.Now()
		w.questions.changed()
		w.note(t.Label + " could not be started on a node: released")
		w.say(run("scontrol", "release", t.row.job))
	case reason == "BeginTime":
		t.freed = time.Now()
		w.questions.changed()
		w.note(t.Label + " was put back into the queue (its node failed)")
		w.say(run("scontrol", "update", "JobId="+t.row.job, "StartTime=now"))
	case t.row.needed != "" && strings.HasPrefix(reason, "ReqNodeNotAvail"):
		t.freed = time.Now()
		w.questions.changed()
		isDown := func() bool {
			nodes, _ := Nodes(w.Partition) // of an error, none
			return slices.ContainsFunc(nodes, func(n Node) bool {
				return n.Name == t.node && n.Down()
			})
		}

		if t.Together == "" || !isDown() {
			return
		}

		w.note(fmt.Sprintf("%s is not available: its points go to other nodes", t.node))
		w.stop([]string{t.row.job})
		if gone := t.node; !slices.Contains(w.avoid, gone) {
			w.avoid = append(w.avoid, gone)
		}

		t.node, t.Node, t.row, t.submitted = "", "", nil, false
	}
}

// aloneWithin is how long a running task may write nothing that is seen here before its result is
// collected from its node.
const aloneWithin = 8 * time.Second

// follow tells what a running task says, and serves what it needs.
func (w *batch) follow(collecting context.Context, t *task) {
	lines := t.log.lines()
	silent := len(lines) == 0 && t.log.offset == 0
	if silent && w.silent == 0 && !t.collects &&
		(w.apart[t.row.node] && t.alone == 0 || time.Since(t.since) > aloneWithin) {
		t.collects = true
		go w.collect(collecting, t, t.row.job, t.row.node)
	}

	for _, line := range lines {
		w.heard(t, line)
	}
}

// heard is a line that a task said.
func (w *batch) heard(t *task, line []byte) {
	var said struct {
		result.Event
		Needs string `json:"needs"`
	}

	if json.Unmarshal(line, &said) != nil {
		return // a library's words
	}

	if said.Needs != "" && t.row != nil {
		w.askQueue() // since the last question it may have gone to another node
		if t.row != nil {
			w.serve(t, t.row.job)
		}
		return
	}

	if said.Phase != "" {
		w.update(Update{Task: slices.Index(w.tasks, t), Node: t.node, Event: said.Event})
	}
}

// serve delivers the programs to the node of a running job, once for each of its starts.
func (w *batch) serve(t *task, job string) {
	key := job + t.node
	if t.served[key] {
		return
	}

	t.served[key] = true
	w.note("delivering statelab to " + t.node)
	for _, p := range w.programs {
		if err := run("sbcast", "--force", "--jobid="+job, p.Path,
			filepath.Join(w.delivered(), job, filepath.Base(p.Path))); err != nil {
			w.say(fmt.Errorf("deliver %s to %s: %w", p.Path, t.node, err))
			return
		}
	}
}

// submit hands those tasks to Slurm that can be: an array for each kind of node. A task
// that is to share its node with others waits until Slurm has chosen one for them.
func (w *batch) submit() error {
	type where struct{ class, node, nodes string }
	var order []where
	groups := map[where][]*task{}
	chosen, first := map[string]string{}, map[string]*task{}
	for _, t := range w.tasks {
		if t.Together != "" && t.node != "" && !slices.Contains(w.avoid, t.node) &&
			(t.ended || t.row != nil || t.Node != "") {
			chosen[t.Together] = cmp.Or(chosen[t.Together], t.node)
		}

		if t.Together != "" && t.submitted && !t.ended && first[t.Together] == nil {
			first[t.Together] = t
		}
	}

	for _, t := range w.tasks {
		if t.submitted || t.ended {
			continue
		}

		at := where{class: t.Class, nodes: strings.Join(t.Nodes, ",")}
		if t.Together != "" {
			if at.node = chosen[t.Together]; at.node == "" && first[t.Together] != nil {
				continue
			}

			if first[t.Together] == nil {
				first[t.Together] = t
			}
		}

		if _, known := groups[at]; !known {
			order = append(order, at)
		}

		groups[at] = append(groups[at], t)
	}

	for _, at := range order {
		var numbers []string
		for _, t := range groups[at] {
			numbers = append(numbers, fmt.Sprint(t.number))
		}

		args, err := w.arguments(groups[at][0].Task, at.class, at.node, groups[at][0].Nodes)
		if err != nil {
			return err
		}

		text, err := w.script(groups[at])
		if err != nil {
			return err
		}

		if _, err := ask(text, "sbatch",
			append(args, "--array="+strings.Join(numbers, ","))...); err != nil {
			if away(err) {
				return nil // the controller comes back
			}
			return fmt.Errorf("hand %d tasks to Slurm: %w", len(numbers), err)
		}

		for _, t := range groups[at] {
			t.submitted, t.missing = true, time.Now()
			t.attempts++
			w.questions.changed()
		}
	}

	return nil
}

// arguments are those of sbatch but for the array.
func (w *batch) arguments(like *Task, class, node string, nodes []string) ([]string, error) {
	args := []string{"--parsable", "--job-name=" + w.name, "--comment=" + w.Folder, "--requeue",
		"--open-mode=append", "--output=/dev/null",
		"--error=/dev/null", "--nodes=1", "--ntasks=1", "--chdir=/", "--export=ALL"}
	if !like.Shares {
		args = append(args, "--exclusive")
	}

	if w.Partition != "" {
		args = append(args, "--partition="+w.Partition)
	}

	if class != "" {
		args = append(args, "--constraint="+class)
	}

	avoid := slices.Clone(w.avoid)
	switch {
	case node != "":
		args = append(args, "--nodelist="+node)
	case len(nodes) > 0: // --nodelist would ask for all of them
		all, err := Nodes(w.Partition)
		if err != nil {
			return nil, err
		}

		for _, n := range all {
			if !slices.Contains(nodes, n.Name) {
				avoid = append(avoid, n.Name)
			}
		}
	}

	if len(avoid) > 0 && node == "" {
		args = append(args, "--exclude="+strings.Join(avoid, ","))
	}

	return append(args, w.Submit...), nil
}

// interrupt takes back what has not begun and asks what runs, once, to store what it has.
func (w *batch) interrupt() {
	w.stop(w.jobs(func(r *row) bool { return r.state == "PD" }))
	running := w.jobs(func(r *row) bool { return r.state != "PD" && !w.asked[r.job] })
	for _, job := range running {
		w.asked[job] = true
	}
	if len(running) > 0 {
		w.say(run("scancel", append([]string{"--signal=INT", "--batch"}, running...)...))
	}
}

func (w *batch) jobs(which func(*row) bool) (jobs []string) {
	for _, t := range w.tasks {
		if t.row != nil && !t.ended && which(t.row) {
			jobs = append(jobs, t.row.job)
		}
	}
	return jobs
}

func (w *batch) stop(jobs []string) {
	if len(jobs) > 0 {
		w.say(run("scancel", jobs...))
	}
}

// settle lets the last jobs leave the queue. One that goes back into it, since its node was
// given up although it finished, is taken back.
func (w *batch) settle() {
	for wait := tickEvery / 2; wait < 8*tickEvery; wait *= 2 {
		rows, err := queue(w.name)
		if err != nil {
			return // what is left finds its result and ends
		}

		var waiting []string
		running := false
		for _, r := range rows { // those of tasks that an earlier process saw end, too
			if r.state == "PD" {
				waiting = append(waiting, r.job)
			} else {
				running = true
			}
		}

		w.stop(waiting)
		if !running && len(waiting) == 0 {
			return
		}

		time.Sleep(wait)
	}
}

// removeCopies removes what starts that were killed have left beside the results. A start that
// still copies one fails, and nobody needs it.
func (w *batch) removeCopies() error {
	for _, t := range w.tasks {
		if t.failed != "" {
			continue
		}
		if err := removeCopies(t.To); err != nil {
			return fmt.Errorf("tidy up beside the result of %s: %w", t.Label, err)
		}
	}
	return nil
}

// failures names the tasks without a result.
func (w *batch) failures() error {
	var errs []error
	for _, t := range w.tasks {
		if t.failed != "" {
			errs = append(errs,
				fmt.Errorf("%s: %s (its log: %s)", t.Label, t.failed, w.log(t, ".err")))
		}
	}
	return errors.Join(errs...)
}

func (w *batch) note(text string) { w.update(Update{Task: -1, Note: text}) }

func (w *batch) say(err error) {
	if err != nil {
		w.note(err.Error())
	}
}

func (w *batch) update(u Update) {
	for _, t := range w.tasks {
		switch {
		case t.ended:
			u.Ended++
		case t.row != nil && t.row.state == "R":
			u.Running++
		default:
			u.Queued++
		}
	}

	w.tell(u)
}
