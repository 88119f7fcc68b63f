//go:build linux

package chunktrie

import (
	"sync"
	"testing"

	"github.com/statelab/statelab/layout"
)

// TestReadersShareReads has many readers look the same account up at once, past the
// page cache and with nothing pinned: they make fewer reads than they meet nodes,
// and all find it.
func TestReadersShareReads(t *testing.T) {
	o := layout.Options{Dir: newDir(t), Create: true, Profile: "unpinned", Direct: true}
	s, keys := evenly(t, o, 2000)
	const readers = 64
	var all [readers]*Reader
	for i := range all {
		all[i] = reader(t, s)
	}

	before := *s.Counters().Reads
	var start, group sync.WaitGroup
	start.Add(1)
	for _, r := range all {
		group.Go(func() {
			start.Wait()
			for i, key := range keys[:200] {
				if a, found, err := r.Account(key); err != nil || !found ||
					a.Nonce != uint64(i%300) {
					t.Errorf("account %d: %+v, %v, %v", i, a, found, err)
					return
				}
			}
		})
	}

	start.Done()
	group.Wait()
	nodes := int64(0)
	for _, r := range all {
		nodes += *r.Touched().Nodes
		must(t, r.Close())
	}

	reads := *s.Counters().Reads - before
	t.Logf("%d nodes met, %d reads", nodes, reads)
	if reads == 0 || reads >= nodes { // how many meet is up to the scheduler
		t.Errorf("%d reads for %d nodes that %d readers met at once: none was shared", reads,
			nodes, readers)
	}

	must(t, s.Close())
}
