package memiavl

import (
	"testing"

	"github.com/statelab/statelab/tree/treetest"
)

func TestSync(t *testing.T)  { treetest.Run(t, Sync()) }
func TestAsync(t *testing.T) { treetest.Run(t, Async()) }
