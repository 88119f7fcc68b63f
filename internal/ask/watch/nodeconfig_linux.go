package watch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/result"
)

// NodeOf is the process that has the database in dir open, a client's; nil where none has, or
// others' files are hidden from this user.
func NodeOf(dir string, client clients.Client) *advice.RunningNode {
	n, t := ownerOf(dir)
	if n == nil {
		return nil
	}

	n.Config = configOf(t, client, t.Opened(dir))
	n.Memory = advice.MemoryOf(new(host.MemoryOf(n.PID)))
	n.Started, _ = t.Started() // where it is not known, nothing depends on it
	return n
}

// Unwatched says what is not known of the process that has the database in dir open, and what would
// tell it; "": no process has, or others' files are hidden from this user.
func Unwatched(dir string) string {
	if _, err := dbformat.Recognise(dir); err != nil {
		return "" // others' files may be open there, and tell of no node
	}

	n, _ := ownerOf(dir)
	if n == nil {
		return ""
	}
	return advice.Unwatched(n)
}

// ownerOf is the process that has the database in dir open; nil: none is known.
func ownerOf(dir string) (*advice.RunningNode, *probe.Target) {
	pid, err := probe.FindOwner(dir)
	if err != nil {
		return nil, nil
	}

	t, err := probe.Process(pid)
	if err != nil {
		return nil, nil
	}

	return &advice.RunningNode{PID: pid, Name: t.Name}, t
}

// configOf is what sets the memory of a process. Files are read below its own root.
func configOf(t *probe.Target, client clients.Client, database string) result.NodeConfig {
	process, err := procfs.NewProc(t.PID)
	if err != nil { // it has ended
		return advice.FlagsAlone(client, t.Args)
	}

	n := advice.NodeCommand{
		Args:       t.Args,
		ProgramDir: filepath.Dir(t.Program),
		Database:   strings.TrimPrefix(database, fmt.Sprintf("/proc/%d/root", t.PID)),
	}

	n.Dir, _ = process.Cwd() // relative paths then have no file
	var hidden error
	if n.Env, hidden = process.Environ(); hidden != nil {
		n.Env = nil
	}

	c := advice.ReadNodeConfig(client, n, func(path string) ([]byte, error) {
		return readBelow(fmt.Sprintf("/proc/%d/root", t.PID), path)
	})
	if hidden != nil {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the environment of %s cannot be read (%v): "+
			"what follows does without it", t, hidden))
	}

	groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", t.PID)) // without, no unit is named
	c.Unit = unitIn(string(groups))
	return c
}

// maxConfigBytes bounds what is read of a configuration file.
const maxConfigBytes = 1 << 20

// readBelow reads a file of a process whose root is a folder here. Symbolic links are followed as
// the process would.
func readBelow(root, path string) (text []byte, err error) {
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}

	defer unix.Close(at)
	// A pipe that nobody writes to must not block.
	descriptor, err := unix.Openat2(at, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_IN_ROOT,
	})
	if err != nil {
		return nil, err
	}

	file := os.NewFile(uintptr(descriptor), path)
	defer file.Close() // read only
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it is not a file"))
	}

	text, err = io.ReadAll(io.LimitReader(file, maxConfigBytes+1))
	if len(text) > maxConfigBytes {
		err = fmt.Errorf("it is larger than %d bytes", maxConfigBytes)
	}

	return text, err
}

// containerID is that of Docker, Podman, containerd and CRI-O in the name of a control group.
var containerID = regexp.MustCompile(`([0-9a-f]{12})[0-9a-f]{52}(\.scope)?$`)

// unitIn is the service of systemd, or the container, whose control group a process is in; "": of
// none. groups are the lines of /proc/PID/cgroup.
func unitIn(groups string) string {
	for line := range strings.Lines(groups) {
		_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, group, _ = strings.Cut(group, ":")
		parts := strings.Split(group, "/")
		for i := len(parts) - 1; i >= 0; i-- {
			name := parts[i]
			if id := containerID.FindStringSubmatch(name); id != nil {
				return "container " + id[1]
			}

			// The manager of a user's units is not what runs one of them.
			if strings.HasSuffix(name, ".service") && !strings.HasPrefix(name, "user@") {
				return name
			}
		}
	}

	return ""
}
