package changeset

import (
	"fmt"
	"slices"
)

// maxNetBytes bounds the version that Net holds in memory.
const maxNetBytes = 8 << 30

// Net is s with every version in the order sorted-net: by store number and key,
// and of several changes of a key the last. It holds one version in memory. A key
// that a version both creates and deletes stays as a delete, which changes no
// tree. Expected roots are dropped: they belong to the order they came from.
func Net(s Source) Source {
	if s.Info().Order == OrderSortedNet {
		return s
	}
	return &netSource{Source: s}
}

type netSource struct {
	Source
	in    Batch
	whole Batch // one version, sorted
	open  bool  // and not given to its end
	given int
}

func (s *netSource) Info() Info {
	info := s.Source.Info()
	info.Order, info.RootRule, info.Totals = OrderSortedNet, "", nil
	return info
}

func (s *netSource) Next(b *Batch) error {
	if !s.open {
		if err := s.gather(); err != nil {
			return err
		}
		s.open, s.given = true, 0
	}
	b.begin(s.whole.Version)
	for ; s.given < len(s.whole.Changes); s.given++ {
		c := s.whole.Changes[s.given]
		if !b.offer(c.Store, c.Key, c.Value, c.Delete) {
			return nil
		}
	}
	b.Last, s.open = true, false
	return nil
}

// gather reads one version and sorts it.
func (s *netSource) gather() error {
	s.whole.begin(0)
	for {
		if err := s.Source.Next(&s.in); err != nil {
			return err
		}
		if s.whole.Version == 0 {
			s.whole.begin(s.in.Version)
		}
		for _, c := range s.in.Changes {
			s.whole.add(c.Store, c.Key, c.Value, c.Delete)
		}
		if len(s.whole.arena) > maxNetBytes {
			return fmt.Errorf("version %d: more than %d bytes to sort", s.in.Version, int64(maxNetBytes))
		}
		if s.in.Last {
			break
		}
	}
	slices.SortStableFunc(s.whole.Changes, compareKeys)
	s.whole.Changes = lastOfEach(s.whole.Changes)
	return nil
}

// lastOfEach keeps the last change of each key of a sorted list.
func lastOfEach(changes []Change) []Change {
	kept := changes[:0]
	for i, c := range changes {
		if i+1 == len(changes) || compareKeys(changes[i+1], c) != 0 {
			kept = append(kept, c)
		}
	}
	return kept
}
