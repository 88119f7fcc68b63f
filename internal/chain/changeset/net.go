package changeset

import (
	"errors"
	"fmt"
	"io"
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
	return &reading{form: &netSource{Source: s}}
}

type netSource struct {
	Source
	in     Batch
	whole  Batch // one version
	listed       // of it, sorted
}

func (s *netSource) Info() Info {
	info := s.Source.Info()
	info.Order, info.RootRule, info.Totals = OrderSortedNet, "", nil
	return info
}

func (s *netSource) begin() (version int64, err error) {
	err = s.gather()
	return s.whole.Version, err
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
			return fmt.Errorf("version %d: more than %d bytes to sort", s.in.Version,
				int64(maxNetBytes))
		}

		if s.in.Last {
			break
		}
	}

	slices.SortStableFunc(s.whole.Changes, compareKeys)
	s.listed = listed{changes: lastOfEach(s.whole.Changes)}
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

// Join is sets one after another: parts of one set, in ascending order, with the
// same stores and order.
func Join(sets ...Source) (Source, error) {
	if len(sets) == 0 {
		return nil, errors.New("nothing to join")
	}

	first := sets[0].Info()
	for _, s := range sets[1:] {
		if info := s.Info(); info.Order != first.Order || info.RootRule != first.RootRule ||
			!info.Complete || !slices.Equal(info.Stores, first.Stores) {
			return nil, fmt.Errorf("sets of different stores or orders cannot be joined: %v %v, "+
				"%v %v", first.Stores, first.Order, info.Stores, info.Order)
		}
	}

	return &joined{sets: sets}, nil
}

// JoinFiles is Join of the sets in files of statelab's own format, which follow each other without
// a gap.
func JoinFiles(paths []string) (_ Source, err error) {
	var sets []Source
	defer func() {
		if err != nil {
			err = errors.Join(err, (&joined{sets: sets}).Close())
		}
	}()

	next := int64(0)
	for i, path := range paths {
		set, err := OpenFile(path, FormatContainer)
		if err != nil {
			return nil, err
		}

		sets = append(sets, set)
		info := set.Info()
		if info.Damage != nil {
			return nil, fmt.Errorf("%s: %w", path, info.Damage)
		}

		if i > 0 && info.First != next {
			return nil, fmt.Errorf("%s begins with version %d, but %d is next: name all parts in "+
				"their order", path, info.First, next)
		}

		next = info.Last + 1
	}

	return Join(sets...)
}

type joined struct {
	sets []Source
	at   int
	last int64 // version given
	past int64 // the last of the sets before
}

func (s *joined) Info() Info {
	info := s.sets[0].Info()
	info.Last, info.Totals = s.sets[len(s.sets)-1].Info().Last, nil
	return info
}

func (s *joined) Next(b *Batch) error {
	for ; s.at < len(s.sets); s.at++ {
		err := s.sets[s.at].Next(b)
		if err == io.EOF {
			s.past = s.last
			continue
		}

		if err == nil && b.Version <= s.past {
			err = fmt.Errorf("version %d after version %d: the sets overlap", b.Version, s.past)
		}

		s.last = b.Version
		return err
	}

	return io.EOF
}

func (s *joined) Close() error {
	var errs []error
	for _, set := range s.sets {
		errs = append(errs, set.Close())
	}
	return errors.Join(errs...)
}
