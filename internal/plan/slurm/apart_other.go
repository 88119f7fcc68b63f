//go:build !linux

package slurm

import (
	"errors"
	"os"
	"os/exec"
)

func apart(*exec.Cmd) {}

// tryLock is of nodes, which run Linux.
func tryLock(*os.File) error { return errors.New("nodes of a cluster run Linux") }
