package cosmosstore

import (
	"testing"

	"github.com/statelab/statelab/tree/treetest"
)

func TestTree(t *testing.T) { treetest.Run(t, Tree{}) }
