//go:build linux

package chunktrie

import (
	"testing"

	"github.com/statelab/statelab/layout/layouttest"
)

func BenchmarkBuild(b *testing.B) { layouttest.BenchmarkBuild(b, Layout{}) }
func BenchmarkReads(b *testing.B) { layouttest.BenchmarkReads(b, Layout{}) }
