package setting

import (
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
)

// Wrong is every mistake on a command line or in a file at once.
type Wrong struct{ Mistakes }

// MostShown are the mistakes that an error lists; more do not help.
const MostShown = 30

func (e Wrong) Error() string {
	if len(e.Found) == 1 {
		return e.Found[0]
	}
	shown := e.Found
	if len(shown) > MostShown { // of a long list, or of a file that is no experiment
		shown = append(slices.Clone(shown[:MostShown]), fmt.Sprintf("and %d more", len(e.Found)-MostShown))
	}
	return fmt.Sprintf("%d mistakes\n  %s", len(e.Found), strings.Join(shown, "\n  "))
}

// Err is nil if nothing is wrong.
func (m *Mistakes) Err() error {
	if len(m.Found) == 0 {
		return nil
	}
	f := &engine.Failure{Err: Wrong{*m}}
	if m.Typed {
		f.Code = engine.CodeUsage
	}
	if m.Why != nil {
		f.Remedy = m.Why.Remedy
		if !m.Typed || failure.Relative(m.Why.Code) {
			f.Code = m.Why.Code
		}
	}
	return f
}

// Usage is one mistake.
func Usage(format string, args ...any) error {
	m := new(Mistakes)
	m.Add(format, args...)
	return m.Err()
}
