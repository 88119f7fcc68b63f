package runners

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// KillWithParent gives a command a process group of its own, and it ends with statelab.
func KillWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(leader *os.Process, s syscall.Signal) error { return syscall.Kill(-leader.Pid, s) }

func signalNamed(name string) syscall.Signal { return unix.SignalNum(name) }
