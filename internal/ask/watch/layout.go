package watch

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/blocktable"
	"github.com/statelab/statelab/internal/observe/getpath"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/subject"
)

// Layout is what is known of the database of a watched engine.
type Layout struct {
	Version string // of the engine, where its files tell
	// Tables are those of the present version, with their levels.
	Tables func() ([]blockio.LiveTable, error)
	// Learn reads what lies where in a table.
	Learn blockio.Learner
	// Follow follows the tables and the logs while they change; nil: it cannot be done.
	Follow func(appeared func() ([]string, error)) (*resolve.Following, error)
	// Families are the names of the column families by number; nil: the engine has none.
	Families func() (map[uint32]string, error)
	// Record writes the block accesses of Gets on the database as it is at the end, where it is not followed; nil: they
	// cannot be worked out. The first byte of a key says to which of the families it goes, if there are any.
	Record func(ctx context.Context, families []string, keys getpath.Keys, gets uint64, header trace.Header, out io.Writer) error
	// Setup is the engine's block cache; without a policy it is not modelled.
	Setup cachesim.Setup
}

// LayoutOf is the layout of an engine's database in dir.
func LayoutOf(engine, dir string) Layout {
	of, _ := subject.EngineOf(engine)
	header := trace.Header{Engine: engine}
	if of.BlockTables {
		log, _ := readLog(filepath.Join(dir, logName)) // CacheOf tells of an error
		header.EngineVersion = log.version
	}
	setup := curve.Setup(header, 1)
	if of.BlockTables || of.LevelTables {
		l := Layout{Version: header.EngineVersion, Learn: blocktable.Learn, Setup: setup,
			Tables: func() (tables []blockio.LiveTable, err error) {
				families, err := blocktable.Families(dir)
				for _, f := range families {
					for _, t := range f.Tables {
						tables = append(tables, blockio.LiveTable{Number: blockio.FileNumber(t.File), Level: t.Level, Bytes: t.Bytes})
					}
				}
				return tables, err
			},
			Record: func(ctx context.Context, names []string, keys getpath.Keys, gets uint64, header trace.Header, out io.Writer) error {
				return recordFamilies(ctx, dir, names, keys, gets, header, out)
			}}
		if of.BlockTables {
			l.Families = func() (map[uint32]string, error) {
				families, err := blocktable.Families(dir)
				names := map[uint32]string{}
				for _, f := range families {
					names[f.Number] = f.Name
				}
				return names, err
			}
		}
		return l
	}
	pebble := subject.PebbleVersion(engine)
	return Layout{
		Tables: func() ([]blockio.LiveTable, error) { return resolve.Tables(dir, pebble) },
		Learn:  pebble2fs.Learn, // which reads the tables of both versions
		Setup:  setup,
		Follow: func(appeared func() ([]string, error)) (*resolve.Following, error) {
			return resolve.Follow(dir, pebble, appeared)
		},
	}
}

// levelBlock is the block size by which goleveldb's buffers are given out, unless a program sets another: its default.
const levelBlock = 4 << 10

// recordFamilies records Gets of column families, or, without any, of a database of LevelDB. Its filters are asked where its tables have them,
// since the program that asks is the one that wrote them.
func recordFamilies(ctx context.Context, dir string, names []string, keys getpath.Keys, gets uint64, header trace.Header, out io.Writer) (err error) {
	var members []*blocktable.Resolver
	defer func() {
		for _, r := range members {
			err = errors.Join(err, r.Close())
		}
	}()
	var identities []string
	add := func(r *blocktable.Resolver, err error) error {
		if err == nil {
			members, identities = append(members, r), append(identities, r.Identity())
		}
		return err
	}
	if names == nil {
		if err := add(blocktable.OpenLevel(dir, true, levelBlock)); err != nil {
			return err
		}
		header.Database = identities[0]
		return record(ctx, members[0], keys, gets, header, out)
	}
	for _, name := range names {
		if err := add(blocktable.Open(dir, name, nil)); err != nil {
			return err
		}
	}
	mix := blocktable.NewMix(members...)
	header.Database, header.CacheKeys = strings.Join(identities, "+"), mix.CacheKeys()
	return record(ctx, mix, keys, gets, header, out)
}

func record(ctx context.Context, source getpath.Source, keys getpath.Keys, gets uint64, header trace.Header, out io.Writer) error {
	to, err := trace.NewWriter(out, header)
	if err != nil {
		return err
	}
	offered, err := getpath.Record(ctx, source, nil, keys, gets, trace.Sample{}, to)
	if err != nil {
		return err
	}
	_, err = to.Close(offered)
	return err
}
