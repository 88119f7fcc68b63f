package chunktrie

import (
	"testing"

	"github.com/statelab/statelab/state/statetest"
)

func BenchmarkBuild(b *testing.B) { statetest.BenchmarkBuild(b, Layout{}) }
func BenchmarkReads(b *testing.B) { statetest.BenchmarkReads(b, Layout{}) }
