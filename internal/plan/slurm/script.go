package slurm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	Nonce string            `json:"nonce"` // of the folder of the batch, so that a node knows whether it sees it
	Jobs  string            `json:"jobs"`  // the batch's name
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
	return fmt.Sprintf(batchScript, quote(w.Scratch), quote(w.name), quote(w.Folder), quote(nonce), quote(tasks[0].Class), quote(found.String()),
		quote(sent.String()), quote(w.programs[0].Path), quote(w.delivered()), quote(filepath.Base(w.programs[0].Path)), ElementVerb, text), nil
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
				echo "this node has another statelab, or none, at $program, and none was delivered within 10 minutes" >&2
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
