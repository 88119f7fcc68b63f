package watch

import (
	"context"
	"io"
	"path/filepath"

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
	// Learn reads what lies where in a table.
	Learn blockio.Learner
	// Folders are where its files come and go, of which appeared tells for Follow, which follows its tables and logs while they change.
	Folders []string
	Follow  func(appeared func() ([]string, error)) (following, error)
	// Families are the names of the column families by number; nil: the engine has none.
	Families func() (map[uint32]string, error)
	ByFamily bool // what is followed is asked with the number of a family in front of the key
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
		levelBlock := 0
		if of.LevelTables {
			levelBlock = defaultLevelBlock
		}
		l := Layout{Version: header.EngineVersion, Learn: blocktable.Learn, Setup: setup, ByFamily: true, Folders: blocktable.Folders(dir, levelBlock),
			Follow: func(appeared func() ([]string, error)) (following, error) {
				f, err := blocktable.Follow(dir, levelBlock, appeared)
				return blockTables{f}, err
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
		Learn:   pebble2fs.Learn, // which reads the tables of both versions
		Setup:   setup,
		Folders: resolve.Folders(dir),
		Follow: func(appeared func() ([]string, error)) (following, error) {
			f, err := resolve.Follow(dir, pebble, appeared)
			return oneTree{f}, err
		},
	}
}

// defaultLevelBlock is the block size by which goleveldb's buffers are given out, unless a program sets another: its default.
const defaultLevelBlock = 4 << 10

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
