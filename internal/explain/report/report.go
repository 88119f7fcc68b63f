// Package report recognises what folders hold and hands them to the package that explains
// them (kinds).
//
// It reads folders only, never a live object, so that a report made years later
// from the same folder says the same. A figure that a folder does not hold is
// shown as absent with its reason; a point that failed is shown with its error.
// Non-goals: statistics between two runs (compare), recommendations that need
// more than the measured points (advise).
package report

import (
	"errors"
	"fmt"

	"github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/explain/kinds"
)

// Report is what a folder says: as a page for a browser and as text for a terminal.
type Report = kinds.Report

// ErrOneAtATime is of folders that are explained on their own only.
var ErrOneAtATime = errors.New("report it on its own")

// Open reads folders: several runs and sweeps, several replays, or one folder of another kind.
func Open(folders ...string) (Report, error) {
	var first kinds.Kind
	for i, folder := range folders {
		kind, ok := kinds.Of(folder)
		if i == 0 {
			first = kind
		}
		if ok && len(folders) > 1 && (kind.Subject == "" || kind.Subject != first.Subject) {
			return nil, fmt.Errorf("%s holds %s: %w", folder, kind.Words, ErrOneAtATime)
		}
	}
	if first.Read == nil {
		return engines.Read(folders...) // which says what is wrong with the first
	}
	return first.Read(folders...)
}
