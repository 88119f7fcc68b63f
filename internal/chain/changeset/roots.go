package changeset

import (
	"fmt"
	"slices"
)

// NamedRoots are the roots of one version by the names of stores.
type NamedRoots struct {
	Combined []byte
	Stores   map[string][]byte
}

// WithRoots is s with the roots that trees of a rule must have, by version;
// versions that are not in the map expect none.
func WithRoots(s Source, rule string, roots map[int64]NamedRoots) Source {
	return &rooted{Source: s, rule: rule, roots: roots}
}

type rooted struct {
	Source
	rule  string
	roots map[int64]NamedRoots
}

func (s *rooted) Info() Info {
	info := s.Source.Info()
	info.RootRule, info.Totals = s.rule, nil
	return info
}

func (s *rooted) Next(b *Batch) error {
	if err := s.Source.Next(b); err != nil || !b.Last {
		return err
	}
	b.Roots = Roots{}
	at, known := s.roots[b.Version]
	if !known {
		return nil
	}
	stores := s.Source.Info().Stores
	b.Roots = Roots{Combined: at.Combined, Stores: make([][]byte, len(stores))}
	for name, root := range at.Stores {
		number := slices.Index(stores, name)
		if number < 0 {
			return fmt.Errorf("version %d: a root of store %q, which the set does not have", b.Version, name)
		}
		b.Roots.Stores[number] = root
	}
	return nil
}
