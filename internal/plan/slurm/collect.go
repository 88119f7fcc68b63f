package slurm

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/statelab/statelab/internal/plan/runners"
)

// Where a node does not see the folder of the results, what a task says and what it made
// come back over the standard output of a job step beside it.

// collected is what came from a node.
type collected struct {
	task *task
	node string
	line []byte
	end  bool
	err  error
}

// nothingHere ends what a node says that has no log of the task, or one that nobody writes: it
// sees our folders, or the controller believes that a job runs there which does not. A step
// beside such a job would keep the controller from finding that out.
const nothingHere = "{\"folder\":\"none\"}\n"

var errNothingHere = errors.New("the node has no log of the task")

// collectAgain is how long a job is left alone whose node had nothing; then twice as long.
const collectAgain = time.Minute

// folderFollows ends what a task says; a tar stream comes after it.
const folderFollows = "{\"folder\":\"tar\"}\n"

// collectScript sends the log of a task until its result is there, then that.
const collectScript = `
base=%s/statelab-$(id -u)-${SLURMD_NODENAME:-$(hostname)}/%s
log=$base/log/%d.log made=$base/offered-%[3]d
quiet=0
if [ -e "$log" ]; then tail -n +1 -f "$log" & fi
until [ -e "$made/%[4]s" ]; do
	quiet=$((quiet + 1))
	if [ -n "$(find "$log" -mmin -10 2>/dev/null)" ]; then quiet=0; fi
	if [ $quiet -gt 20 ]; then
		if [ -n "$!" ]; then kill "$!"; wait "$!"; fi 2>/dev/null
		echo '{"folder":"none"}'
		exit 0
	fi
	if [ -z "$!" ] && [ -e "$log" ]; then tail -n +1 -f "$log" & fi
	sleep 1
done
if [ -n "$!" ]; then kill "$!"; wait "$!"; fi 2>/dev/null
echo
echo '{"folder":"tar"}'
tar -C "$made" -cf - . && touch "$made/%[5]s"
`

// maxCollected bounds a result that comes over the net.
const maxCollected = 8 << 30

// collect brings the result of a running job here.
func (w *batch) collect(ctx context.Context, t *task, job, node string) {
	err := w.receive(ctx, t, job, node)
	select {
	case w.came <- collected{task: t, node: node, end: true, err: err}:
	case <-ctx.Done():
	}
}

func (w *batch) receive(ctx context.Context, t *task, job, node string) error {
	text := fmt.Sprintf(collectScript, quote(w.Scratch), w.name, t.number, EndFile, collectedFile)
	step := exec.CommandContext(ctx, "srun", "--jobid="+job, "--overlap", "--nodes=1",
		"--ntasks=1", "--nodelist="+node, "--chdir=/", "/bin/sh", "-c", text)
	runners.KillWithParent(step)
	var words bytes.Buffer
	step.Stderr = &words
	out, err := step.StdoutPipe()
	if err != nil {
		return err
	}

	if err := step.Start(); err != nil {
		return fmt.Errorf("start srun: %w", err)
	}

	err = w.stream(ctx, t, bufio.NewReaderSize(io.LimitReader(out, maxCollected), 1<<20))
	if err != nil {
		step.Cancel()
	}

	if waited := step.Wait(); err != nil || waited != nil {
		return fmt.Errorf("collect the result of %s from %s: %w", t.Label, node,
			errors.Join(err, waited, errors.New(firstLine(words.String()))))
	}

	return nil
}

func (w *batch) stream(ctx context.Context, t *task, in *bufio.Reader) error {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}

		if string(line) == folderFollows {
			break
		}

		if string(line) == nothingHere {
			return errNothingHere
		}

		select {
		case w.came <- collected{task: t, line: line}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	into, err := os.MkdirTemp(w.Folder, "collected-")
	if err != nil {
		return err
	}

	defer os.RemoveAll(into)
	if err := untar(in, into); err != nil {
		return err
	}

	return place(into, t.To)
}

// untar unpacks files and folders below dir; a name that leads out of it is an error.
func untar(in io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}

	defer root.Close()
	for stream := tar.NewReader(in); ; {
		head, err := stream.Next()
		if err == io.EOF {
			_, err := io.Copy(io.Discard, in)
			return err
		}

		if err != nil {
			return fmt.Errorf("read the result's stream: %w", err)
		}

		name := filepath.Clean(head.Name)
		switch head.Typeflag {
		case tar.TypeDir:
			if name != "." {
				err = root.MkdirAll(name, 0o755)
			}
		case tar.TypeReg:
			err = write(root, name, stream)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder", head.Name)
		}

		if err != nil {
			return fmt.Errorf("unpack the result: %w", err)
		}
	}
}

func write(root *os.Root, name string, from io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// collected is called in the batch's loop.
func (w *batch) collected(c collected) {
	switch {
	case !c.end:
		w.heard(c.task, c.line)
	case c.err != nil:
		c.task.collects = false
		if errors.Is(c.err, errNothingHere) {
			c.task.alone = max(collectAgain, 2*c.task.alone)
			c.task.since = time.Now().Add(c.task.alone)
			return
		}

		if c.task.row != nil && c.task.row.state == "R" {
			w.say(c.err)
		}
	default:
		w.apart[c.node] = true
	}
}

// follower reads the lines that are added to a file.
type follower struct {
	path   string
	offset int64
}

// size is that of the file in bytes, 0 if there is none.
func (f *follower) size() int64 {
	info, err := os.Stat(f.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// maxNews bounds what is read of a log at once; what came before it is left out.
const maxNews = 1 << 20

func (f *follower) lines() [][]byte {
	file, err := os.Open(f.path)
	if err != nil {
		return nil
	}

	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil
	}

	f.offset = max(f.offset, info.Size()-maxNews)
	text, err := io.ReadAll(io.LimitReader(io.NewSectionReader(file, f.offset, maxNews), maxNews))
	if err != nil {
		return nil
	}

	whole := bytes.LastIndexByte(text, '\n') + 1
	f.offset += int64(whole)
	return slices.Collect(bytes.Lines(text[:whole]))
}

// lastLine is what a task wrote last to its standard error.
func lastLine(path string) string {
	f := follower{path: path}
	lines := f.lines()
	if len(lines) == 0 {
		return ""
	}
	return string(bytes.TrimSpace(lines[len(lines)-1]))
}
