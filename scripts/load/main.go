// Command load keeps a machine busy while a command runs, so that tests meet other timing than on
// an idle one: 8 busy loops, 2 writers that call fsync, and where the machine lets it make a memory
// control group, a process that reads and writes more than its group holds.
//
//	load make ci     until make has ended; with its exit code
//	load             until it is interrupted
//
// Everything that it started ends with it, however it ends, and its files are removed. Non-goals:
// the same load on every machine, and filling the memory that others need.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/statelab/statelab/internal/observe/host"
)

// What runs beside the command. Each is a process, so that the scheduler treats it as one.
const (
	busyLoops = 8
	writers   = 2
	readers   = 1 // with little memory
)

// role is the variable by which this program tells its children what to do.
const role = "STATELAB_LOAD_ROLE"

func main() {
	if work := os.Getenv(role); work != "" {
		if err := act(work); err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
			os.Exit(1)
		}
		return
	}

	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}

	os.Exit(code)
}

// run runs a command beside the load; code is the command's.
func run(command []string) (code int, err error) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	dir, err := os.MkdirTemp("", "statelab-load-")
	if err != nil {
		return 1, err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var children []*exec.Cmd
	defer func() { err = errors.Join(err, stop(children)) }()

	for work, n := range map[string]int{"loop": busyLoops, "write": writers, "read": readers} {
		for range n {
			child := exec.Command("/proc/self/exe", dir)
			child.Env = append(os.Environ(), role+"="+work)
			child.Stderr = os.Stderr
			child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
			if err := child.Start(); err != nil {
				return 1, fmt.Errorf("start the load: %w", err)
			}

			children = append(children, child)
		}
	}

	fmt.Fprintf(os.Stderr, "load: %d busy loops, %d writers that call fsync, %d reader with "+
		"little memory, in %s\n", busyLoops, writers, readers, dir)
	if len(command) == 0 {
		<-interrupted
		return 0, nil
	}

	child := exec.Command(command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return 1, err
	}

	go func() {
		for s := range interrupted { // the terminal tells the command, too; others tell us alone
			_ = child.Process.Signal(s) // it may have ended
		}
	}()

	err = child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}

	return 0, err
}

// stop ends processes: those that have a control group remove it.
func stop(children []*exec.Cmd) (err error) {
	for _, child := range children {
		if e := child.Process.Signal(syscall.SIGTERM); e != nil &&
			!errors.Is(e, os.ErrProcessDone) {
			err = errors.Join(err, e)
		}
	}

	for _, child := range children {
		late := time.AfterFunc(10*time.Second, func() { _ = child.Process.Kill() })
		e := child.Wait()
		late.Stop()
		var exit *exec.ExitError
		if e != nil && !(errors.As(e, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()) {
			err = errors.Join(err, e)
		}
	}

	host.SweepGroups()
	return err
}

// act does one process's part until it is told to end.
func act(work string) error {
	dir := os.Args[1]
	path := filepath.Join(dir, fmt.Sprint(work, "-", os.Getpid()))
	switch work {
	case "loop":
		for i := uint(0); ; i++ {
			_ = i * i
		}
	case "write":
		return write(path)
	case "read":
		return read(path)
	}

	return fmt.Errorf("no part is called %q", work)
}

const mebibyte = 1 << 20

// write appends and calls fsync; the file begins again at 64 MiB.
func write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}

	defer file.Close()
	block := []byte(strings.Repeat("statelab", 64<<10/8))
	for at := int64(0); ; at = (at + int64(len(block))) % (64 * mebibyte) {
		if _, err := file.WriteAt(block, at); err != nil {
			return err
		}

		if err := file.Sync(); err != nil {
			return err
		}
	}
}

// read reads and writes 256 MiB in a control group that holds 32 MiB of it: the kernel reclaims
// memory all the time, of this process alone.
func read(path string) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	group, err := host.LimitMemory()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load: without memory pressure:", err)
		<-ended
		return nil
	}

	if err := group.TrackAnonRSS(32 * mebibyte); err != nil {
		return errors.Join(err, group.Release())
	}

	err = churn(path, ended)
	return errors.Join(err, group.Release())
}

func churn(path string, ended <-chan os.Signal) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}

	defer file.Close()
	block := make([]byte, mebibyte)
	for n := int64(0); ; n++ {
		select {
		case <-ended:
			return nil
		default:
		}

		at := n * 37 % 256 * mebibyte // not in order, so that reading ahead helps little
		if n < 256 || n%4 == 0 {
			_, err = file.WriteAt(block, at)
		} else {
			_, err = file.ReadAt(block, n*91%256*mebibyte)
		}

		if err != nil {
			return err
		}
	}
}
