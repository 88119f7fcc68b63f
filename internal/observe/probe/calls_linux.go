package probe

import (
	"errors"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// tracepoints attaches to the calls that read files, to the completions of io_uring, and to the
// reads of block devices, if that is not done yet. They report nothing outside of windows.
func (p *Probe) tracepoints() error {
	if len(p.traced) > 0 {
		return nil
	}

	type point struct {
		group, name string
		program     *ebpf.Program
	}

	var all []point
	of := &p.programs.of
	for name, begins := range map[string]*ebpf.Program{
		"pread64": of.ReadAtBegins,
		"preadv":  of.ReadAtBegins,
		"preadv2": of.ReadAtBegins,
		"read":    of.ReadNextBegins,
		"readv":   of.ReadNextBegins,
	} {
		all = append(
			all,
			point{"syscalls", "sys_exit_" + name, of.ReadEnds},
			point{"syscalls", "sys_enter_" + name, begins},
		)
	}

	all = append(
		all,
		point{"io_uring", "io_uring_complete", of.UringEnds},
		point{"block", "block_bio_queue", of.ReadAsks},
	)

	for _, t := range all {
		l, err := link.Tracepoint(t.group, t.name, t.program, nil)
		if errors.Is(err, fs.ErrNotExist) && t.group == "io_uring" && tracing() {
			continue // a kernel without io_uring
		}

		if err != nil {
			return noTracepoint(t.name, err)
		}

		p.traced = append(p.traced, l)
	}

	return nil
}
