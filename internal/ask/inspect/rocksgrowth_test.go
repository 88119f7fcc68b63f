package inspect

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// TestGrowthRefused: each database whose growth is not predicted is refused for its own reason,
// with what to do instead.
func TestGrowthRefused(t *testing.T) {
	settled := []engine.Level{{Level: 6, Sublevels: 1, Files: 1, Keys: 1000, Bytes: 1 << 20,
		DataBlocks: 40, DataBytes: 1 << 20, SingleIndexes: 1, IndexBytes: 1 << 10}}
	flushed := []engine.Level{{Level: 0, Sublevels: 1, Files: 1, Keys: 1000, Bytes: 1 << 20}}
	one := []advise.TableShare{{Share: 1}}
	const file = "[Version]\n  rocksdb_version=11.8.1\n  options_file_version=1.1\n\n" +
		"[DBOptions]\n" +
		"  max_open_files=-1\n\n[CFOptions \"default\"]\n  %\n\n" +
		"[TableOptions/BlockBasedTable \"default\"]\n  block_size=4096\n"
	for name, c := range map[string]struct {
		option string // of the column family; "": there is no OPTIONS file
		levels []engine.Level
		values *engine.Values
		advice advise.RocksAdvice
		words  []string // none: it is predicted
	}{
		"leveled": {"num_levels=7", settled, nil, advise.RocksAdvice{Tables: one}, nil},
		"universal": {"compaction_style=kCompactionStyleUniversal", settled, nil,
			advise.RocksAdvice{Tables: one}, []string{"column family default: " +
				"compaction_style=kCompactionStyleUniversal", "load a state of that size"}},
		"FIFO": {"compaction_style=kCompactionStyleFIFO", settled, nil,
			advise.RocksAdvice{Tables: one}, []string{"compaction_style=kCompactionStyleFIFO",
				"load a state of that size"}},
		"levels": {"num_levels=40", settled, nil, advise.RocksAdvice{Tables: one},
			[]string{"num_levels=40", "2 to 7"}},
		"not a size": {"write_buffer_size=much", settled, nil, advise.RocksAdvice{Tables: one},
			[]string{"write_buffer_size=much", "must be a number"}},
		"no file": {"", settled, nil, advise.RocksAdvice{Tables: one},
			[]string{"has no OPTIONS file", "open it for writing with its program"}},
		"blob files": {"num_levels=7", settled, &engine.Values{Files: 2, Bytes: 5 << 20},
			advise.RocksAdvice{Tables: one},
			[]string{"5.00 MiB of values in blob files", "statelab sweep"}},
		"L0 alone": {"num_levels=7", flushed, nil, advise.RocksAdvice{Tables: one},
			[]string{"no tables below L0", "let compactions finish first"}},
		"no cache": {"num_levels=7", settled, nil, advise.RocksAdvice{Tables: one,
			Costly: []advise.CostlyOption{{Option: "no_block_cache", Value: "true",
				Instead: "false"}}},
			[]string{"no_block_cache=true", "set no_block_cache to false"}},
		"mix": {"num_levels=7", settled, nil, advise.RocksAdvice{Tables: []advise.TableShare{
			{Name: "a", Share: 0.5}, {Name: "b", Share: 0.5}}},
			[]string{"2 column families", "name one with --table"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.option != "" {
				text := strings.Replace(file, "%", c.option, 1)
				if err := os.WriteFile(filepath.Join(dir, "OPTIONS-000007"), []byte(text),
					0o600); err != nil {
					t.Fatal(err)
				}
			}

			run := &result.Run{
				Engine:   result.Engine{Name: subject.OfBlockTables()},
				Database: result.Database{Dir: dir, Levels: c.levels, Values: c.values},
			}
			_, err := growingFamily(&c.advice, run)
			if len(c.words) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}

			if err == nil {
				t.Fatal("it is predicted")
			}

			text := err.Error()
			if f, is := errors.AsType[*engine.Failure](err); is {
				text += "; " + f.Remedy
			}

			for _, w := range append(c.words, "--state-growth: ") {
				if !strings.Contains(text, w) {
					t.Errorf("%q lacks %q", text, w)
				}
			}
		})
	}
}

// TestGrownTrace: Gets access as many blocks as before, out of as many times those below L0, and a
// key always the same ones of an index and of data.
func TestGrownTrace(t *testing.T) {
	const blocks, gets = 50, 20_000
	var now cachesim.Trace
	for n := range uint64(gets) {
		now.BeginGet()
		for _, b := range []cachesim.Block{
			{File: 1, Offset: 1 << 20, Bytes: 100, Type: engine.Filter, Level: 0},
			{File: 2, Offset: 1 << 20, Bytes: 4096, Type: engine.SingleIndex, Level: 6},
			{File: 2, Offset: n % blocks * 4096, Bytes: 4096, Type: engine.Data, Level: 6},
		} {
			if err := now.Touch(b); err != nil {
				t.Fatal(err)
			}
		}
	}

	now.WarmupGets = gets / 2
	for factor, want := range map[float64]int{1: 2 + blocks, 1.5: 1 + 2*(1+blocks),
		4: 1 + 4*(1+blocks)} {
		grown, err := grownTrace(&now, factor, 1)
		if err != nil {
			t.Fatal(err)
		}

		if len(grown.Blocks) != want || len(grown.Gets) != gets ||
			len(grown.Accesses) != len(now.Accesses) || grown.WarmupGets != now.WarmupGets {
			t.Errorf("%g: %d blocks, want %d; %d Gets, %d accesses", factor, len(grown.Blocks),
				want, len(grown.Gets), len(grown.Accesses))
		}

		for _, begin := range grown.Gets {
			index, data := &grown.Blocks[grown.Accesses[begin+1]],
				&grown.Blocks[grown.Accesses[begin+2]]
			if index.Offset>>40 != data.Offset>>40 {
				t.Fatalf("%g: a Get of index %d and data %d", factor, index.Offset, data.Offset)
			}
		}
	}
}

// TestGrowthOfATraceInLevelZero: what lies in level 0 alone would stay as it is.
func TestGrowthOfATraceInLevelZero(t *testing.T) {
	recorded := new(cachesim.Trace)
	recorded.BeginGet()
	if err := recorded.Touch(cachesim.Block{File: 7, Level: 0}); err != nil {
		t.Fatal(err)
	}

	err := growTrace(t.Context(), nil, nil, recorded, cachesim.Setup{}, advise.Grown{Factor: 2}, 1)
	var refused *engine.Failure
	if !errors.As(err, &refused) || refused.Code != engine.CodeUnsupported ||
		refused.Remedy == "" {
		t.Errorf("%v", err)
	}
}
