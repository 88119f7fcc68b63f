package changeset

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Join is sets one after another: parts of one set, in ascending order, with the
// same stores and order.
func Join(sets ...Source) (Source, error) {
	if len(sets) == 0 {
		return nil, errors.New("nothing to join")
	}
	first := sets[0].Info()
	for _, s := range sets[1:] {
		if info := s.Info(); info.Order != first.Order || info.RootRule != first.RootRule || !info.Complete || !slices.Equal(info.Stores, first.Stores) {
			return nil, fmt.Errorf("sets of different stores or orders cannot be joined: %v %v, %v %v", first.Stores, first.Order, info.Stores, info.Order)
		}
	}
	return &joined{sets: sets}, nil
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
