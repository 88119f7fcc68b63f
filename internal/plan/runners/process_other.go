//go:build !linux

package runners

import (
	"os"
	"os/exec"
	"syscall"
)

// KillWithParent does nothing: nothing is measured but on Linux, and a runner is at most asked what
// it is.
func KillWithParent(*exec.Cmd) {}

func killGroup(leader *os.Process, _ syscall.Signal) error { return leader.Kill() }

func signalNamed(string) syscall.Signal { return 0 }
