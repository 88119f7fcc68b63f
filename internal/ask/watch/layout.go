package watch

import (
	"context"
	"io"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/getpath"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/subject"
)

// Layout is what is known of the database of a watched engine.
type Layout struct {
	// Tables are those of the present version, with their levels.
	Tables func() ([]blockio.LiveTable, error)
	// Learn reads what lies where in a table.
	Learn blockio.Learner
	// Follow follows the tables and the logs while they change; nil: it cannot be done.
	Follow func(appeared func() ([]string, error)) (*resolve.Following, error)
	// Record writes the block accesses of Gets on the database as it is at the end, where it is not followed; nil: they
	// cannot be worked out.
	Record func(ctx context.Context, keys getpath.Keys, gets uint64, header trace.Header, out io.Writer) error
	// Policy and Charge are those of the engine's block cache; no policy: it is not modelled.
	Policy cachesim.Policy
	Charge int64
}

// LayoutOf is the layout of an engine's database in dir.
func LayoutOf(engine, dir string) Layout {
	version := subject.PebbleVersion(engine)
	return Layout{
		Tables: func() ([]blockio.LiveTable, error) { return resolve.Tables(dir, version) },
		Learn:  pebble2fs.Learn, // which reads the tables of both versions
		Policy: version.Policy(), Charge: version.BlockCharge(),
		Follow: func(appeared func() ([]string, error)) (*resolve.Following, error) {
			return resolve.Follow(dir, version, appeared)
		},
	}
}
