package slurm

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/statelab/statelab/internal/base/output"
)

// ElementVerb starts statelab as an element of a job array.
const ElementVerb = "__element"

// EndFile is in the folder of every result that came from a node.
const EndFile = "node.json"

// End says where and how a task ended.
type End struct {
	Exit  int       `json:"exit"`
	Node  string    `json:"node"`
	Job   string    `json:"job"`
	Class string    `json:"class,omitempty"`
	Ended time.Time `json:"ended"`
	// Seconds are those of the task itself.
	Seconds float64 `json:"seconds"`
}

func readEnd(folder string) (e End, err error) {
	f, err := os.Open(filepath.Join(folder, EndFile))
	if err != nil {
		return e, err
	}
	defer f.Close()
	return e, json.NewDecoder(io.LimitReader(f, 1<<16)).Decode(&e)
}

func (e End) write(folder string) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, EndFile), append(text, '\n'), 0o644)
}

// NodeOf is the node that a result came from, "" if it is not known.
func NodeOf(folder string) string {
	e, err := readEnd(folder)
	if err != nil {
		return ""
	}
	return e.Node
}

// EndedWell reports whether a result is there that its task made without a mistake, and how
// many seconds that took.
func EndedWell(folder string) (seconds float64, ok bool) {
	e, err := readEnd(folder)
	return e.Seconds, err == nil && e.Exit == 0
}

// patience is how long a node without our folders waits until its result is collected.
const patience = 10 * time.Minute

// Element carries out the task of the array's element that this process is: carryOut in a
// folder below base, on the node's own disk. What it made goes to its place, whole or not at
// all, unless a result without a mistake is there. kind is the node's hardware: the first node
// of a class says what the others must have.
func Element(
	ctx context.Context, base, kind string, in io.Reader, words io.Writer,
	carryOut func(args []string, stdout io.Writer) int,
) int {
	code, err := element(ctx, base, kind, in, carryOut)
	if err != nil {
		fmt.Fprintln(words, "statelab:", err)
		return 1
	}
	return code
}

func element(
	ctx context.Context, base, kind string, in io.Reader,
	carryOut func(args []string, stdout io.Writer) int,
) (int, error) {
	var o order
	if err := json.NewDecoder(io.LimitReader(in, longestAnswer)).Decode(&o); err != nil {
		return 1, fmt.Errorf("read the order of this job: %w", err)
	}

	number, err := strconv.Atoi(os.Getenv("SLURM_ARRAY_TASK_ID"))
	t := o.Tasks[number]
	if err != nil || t == nil {
		return 1, fmt.Errorf("this job has no task %q", os.Getenv("SLURM_ARRAY_TASK_ID"))
	}

	shared := seen(o)
	if end, err := readEnd(t.To); shared && err == nil && end.Exit == 0 {
		return 0, nil // another start of this element was first
	}

	own := filepath.Join(base, o.Jobs)
	if err := os.MkdirAll(filepath.Join(own, "log"), 0o755); err != nil {
		return 1, fmt.Errorf("make a folder on the node's disk: %w", err)
	}

	if !t.Shares {
		if shared {
			if err := asOthers(o.Where, t.Class, os.Getenv("SLURMD_NODENAME"), kind); err != nil {
				return 1, err
			}
		}

		// What a node that was given up still measures is waited for.
		lock, err := exclusively(ctx, filepath.Join(base, "lock"))
		if err != nil {
			return 1, err
		}

		defer lock.Close()
		if end, err := readEnd(t.To); shared && err == nil && end.Exit == 0 {
			return 0, nil // stored while this start waited for the node
		}
	}

	work := filepath.Join(own, strconv.Itoa(number))
	defer os.RemoveAll(work)
	args, err := o.unpack(t, work, own)
	if err != nil {
		return 1, err
	}

	made := filepath.Join(work, t.From)
	began := time.Now()
	code, err := answering(t, made, args, carryOut)
	if err != nil {
		return 1, err
	}

	if _, err := os.Stat(made); errors.Is(err, os.ErrNotExist) {
		return max(code, 1), nil // why is on stderr
	}

	end := End{
		Exit:    code,
		Node:    os.Getenv("SLURMD_NODENAME"),
		Job:     os.Getenv("SLURM_JOB_ID"),
		Class:   os.Getenv("STATELAB_CLASS"),
		Ended:   time.Now().UTC(),
		Seconds: time.Since(began).Seconds(),
	}

	if err := end.write(made); err != nil {
		return 1, err
	}

	if ctx.Err() != nil && code != 0 {
		return code, nil // cut short: the next start does it again
	}

	if shared {
		return code, place(made, t.To)
	}

	return code, offer(ctx, own, number, made)
}

// unpack makes the folder work with the files of the order, and returns the arguments of a task in
// it.
func (o order) unpack(t *Task, work, own string) (args []string, err error) {
	if err := os.RemoveAll(work); err != nil {
		return nil, err
	}

	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}

	for name, text := range o.Files {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}

	for _, arg := range t.Args {
		args = append(args, strings.NewReplacer(Work, work, Scratch, own).Replace(arg))
	}

	return args, nil
}

// asOthers refuses a node whose hardware is not that of the first node of its class: times on
// them cannot be compared.
func asOthers(folder, class, node, kind string) error {
	type first struct{ Node, Kind string }
	name := "hardware.json"
	if class != "" {
		name = "hardware-" + class + ".json"
	}

	path := filepath.Join(folder, name)
	text, err := json.Marshal(first{node, kind})
	if err != nil {
		return err
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}

	if !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("store the node's hardware: %w", err)
	}

	var known first
	if text, err = os.ReadFile(path); err != nil || json.Unmarshal(text, &known) != nil {
		return nil // being written this moment: reports compare the kinds, too
	}

	if known.Kind == kind {
		return nil
	}

	return fmt.Errorf("node %s is not of the same kind as %s, which measured before it: %s has "+
		"%s, %s has %s. Choose nodes of one kind (--constraint), "+
		"or make the classes an axis (--constraint A,B)", node, known.Node, node, kind, known.Node,
		known.Kind)
}

// AnswerFile is the result of a task that answers.
const AnswerFile = "answer.json"

// answering carries a task out; what it prints is its result where it answers.
func answering(
	t *Task, made string, args []string, carryOut func([]string, io.Writer) int,
) (code int, err error) {
	if !t.Answers {
		return carryOut(args, io.Discard), nil
	}

	if err := os.MkdirAll(made, 0o755); err != nil {
		return 1, err
	}

	f, err := os.Create(filepath.Join(made, AnswerFile))
	if err != nil {
		return 1, err
	}

	code = carryOut(args, f)
	return code, f.Close()
}

// seen reports whether this node sees the batch's folder.
func seen(o order) bool {
	text, err := os.ReadFile(filepath.Join(o.Where, nonceFile))
	return err == nil && strings.TrimSpace(string(text)) == o.Nonce
}

// exclusively waits for the lock of a node.
func exclusively(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the node: %w", err)
	}

	for {
		err := output.Lock(f)
		if err == nil {
			return f, nil
		}

		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the node: %w", err), f.Close())
		}

		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// place makes a copy of the folder made the folder to, in one step. Who comes second with
// a result leaves the first one's.
func place(made, to string) error {
	if end, err := readEnd(to); err == nil && end.Exit == 0 {
		return nil // nothing to copy, and nothing to be left behind if this start is killed
	}

	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("store the result: %w", err)
	}

	near := filepath.Join(filepath.Dir(to), copyPrefix(to)+randomText())
	defer os.RemoveAll(near)
	if err := os.CopyFS(near, os.DirFS(made)); err != nil {
		return fmt.Errorf("store the result: %w", err)
	}

	for range 10 {
		err := os.Rename(near, to)
		if err == nil {
			return nil
		}

		if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("store the result: %w", err)
		}

		if end, err := readEnd(to); err == nil && end.Exit == 0 {
			return nil
		}

		old := near + replacedSuffix
		if err := os.Rename(to, old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("replace the failed result: %w", err)
		}

		if end, err := readEnd(old); err == nil && end.Exit == 0 { // it came this very moment
			if os.Rename(old, to) == nil {
				return nil
			}
		}

		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("replace the failed result: %w", err)
		}
	}

	return fmt.Errorf("store the result: %s is always taken", to)
}

// copyPrefix begins the names of copies beside the place of a result, until they take it.
func copyPrefix(to string) string { return "." + filepath.Base(to) + "-" }

// replacedSuffix ends the name of a failed result that is being replaced.
const replacedSuffix = "-old"

// removeCopies removes what starts of a task that were killed have left beside its result.
func removeCopies(to string) error {
	entries, err := os.ReadDir(filepath.Dir(to))
	if err != nil {
		return err
	}

	for _, entry := range entries {
		text, isCopy := strings.CutPrefix(entry.Name(), copyPrefix(to))
		text = strings.TrimSuffix(text, replacedSuffix)
		if !isCopy || strings.Contains(text, "-") { // the latter: of another task's result
			continue
		}

		if err := os.RemoveAll(filepath.Join(filepath.Dir(to), entry.Name())); err != nil {
			return err
		}
	}

	return nil
}

// offer leaves a result where it can be collected, and waits for that.
func offer(ctx context.Context, own string, number int, made string) error {
	at := filepath.Join(own, "offered-"+strconv.Itoa(number))
	if err := os.RemoveAll(at); err != nil {
		return err
	}

	if err := os.Rename(made, at); err != nil {
		return fmt.Errorf("offer the result: %w", err)
	}

	defer os.RemoveAll(at)
	until := time.Now().Add(patience)
	for ; time.Now().Before(until) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(at, collectedFile)); err == nil {
			return nil
		}
	}

	return errors.New("nobody collected the result: this node does not see the folder of the " +
		"results, and statelab did not ask for it")
}

// collectedFile is made in an offered result that was sent.
const collectedFile = ".collected"

func randomText() string { return strings.ToLower(rand.Text()) }

// program is a file that a task needs on its node.
type program struct{ Path, Sum string }

func programs(paths []string) (all []program, err error) {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("look at a program for the nodes: %w", err)
		}

		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}

		all = append(all, program{path, hex.EncodeToString(sum.Sum(nil))})
	}

	return all, nil
}

// delivered is the folder on the nodes for programs that are delivered; Name is of the
// node that reads it.
func (w *batch) delivered() string {
	sum := sha256.New()
	for _, p := range w.programs {
		fmt.Fprintln(sum, filepath.Base(p.Path), p.Sum)
	}
	return filepath.Join(w.Scratch, "statelab-programs-"+hex.EncodeToString(sum.Sum(nil)[:6]))
}

// order is what an element is told on its standard input.
type order struct {
	// of the folder of the batch, so that a node knows whether it sees it
	Nonce string            `json:"nonce"`
	Jobs  string            `json:"jobs"` // the batch's name
	Where string            `json:"folder"`
	Files map[string]string `json:"files"`
	Tasks map[int]*Task     `json:"tasks"`
}

// nonceFile tells the batch's folder from one of the same name on a node's own disk.
const nonceFile = "nonce"

func (w *batch) nonce() (string, error) {
	path := filepath.Join(w.Folder, nonceFile)
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	nonce := randomText()
	return nonce, os.WriteFile(path, []byte(nonce+"\n"), 0o644)
}

// script is the batch script of tasks of one class. It finds the programs, or asks for
// them and waits, and becomes the element.
func (w *batch) script(tasks []*task) (string, error) {
	nonce, err := w.nonce()
	if err != nil {
		return "", fmt.Errorf("mark the folder for Slurm: %w", err)
	}

	o := order{Nonce: nonce, Jobs: w.name, Where: w.Folder, Files: w.Files, Tasks: map[int]*Task{}}
	for _, t := range tasks {
		o.Tasks[t.number] = t.Task
	}

	text, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("encode the tasks: %w", err)
	}

	var found, sent strings.Builder
	for _, p := range w.programs {
		fmt.Fprintf(&found, "%s  %s\n", p.Sum, p.Path)
		fmt.Fprintf(&sent, "%s  %s\n", p.Sum, filepath.Base(p.Path))
	}

	return fmt.Sprintf(batchScript, quote(w.Scratch), quote(w.name), quote(w.Folder), quote(nonce),
		quote(tasks[0].Class), quote(found.String()),
		quote(sent.String()), quote(w.programs[0].Path), quote(w.delivered()),
		quote(filepath.Base(w.programs[0].Path)), ElementVerb, text), nil
}

// batchScript: programs are compared by their contents, so every point is measured by the
// version that planned it. A script has 10 minutes to get them. They are delivered to a
// folder of each job's own, since another job may run those that are there already, on the
// same node or on one that shares its scratch folder. Copies take their place at once: of
// what was delivered, Slurm's daemon may not have closed the last yet.
const batchScript = `#!/bin/sh
scratch=%s jobs=%s folder=%s nonce=%s STATELAB_CLASS=%s
export STATELAB_CLASS
found=%s
sent=%s
sent_in() { (cd "$1" 2>/dev/null && printf %%s "$sent" | sha256sum --check --status 2>/dev/null); }
base=$scratch/statelab-$(id -u)-${SLURMD_NODENAME:-$(hostname)}
log=$folder
if [ "$(cat "$folder/nonce" 2>/dev/null)" != "$nonce" ] || [ ! -w "$folder" ]; then
	log=$base/$jobs/log
fi
mkdir -p "$log" || exit 1
exec >>"$log/$SLURM_ARRAY_TASK_ID.log" 2>>"$log/$SLURM_ARRAY_TASK_ID.err"
program=%s
if ! printf %%s "$found" | sha256sum --check --status 2>/dev/null; then
	sent_to=%s
	program=$sent_to/%s
	if ! sent_in "$sent_to"; then
		own=$sent_to/$SLURM_JOB_ID
		mkdir -p "$own" || exit 1
		tries=0
		until sent_in "$own"; do
			echo '{"needs":"programs"}'
			tries=$((tries + 1))
			if [ $tries -gt 600 ]; then
				echo "this node has another statelab, or none, at $program," \
					"and none was delivered within 10 minutes" >&2
				exit 1
			fi
			sleep 1
		done
		for name in "$own"/*; do
			cp "$name" "$name.new" && mv -f "$name.new" "$sent_to/${name##*/}" || exit 1
		done
		rm -rf "$own"
	fi
fi
exec "$program" %s "$base" <<'STATELAB_ORDER'
%s
STATELAB_ORDER
`

// quote makes text one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
