package mmapdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/pagefile"
	"github.com/statelab/statelab/internal/subject"
)

// SampleTables calls yield with n keys of the tables that were asked for, each with the same chance
// in its table, whatever the fill of pages and the gaps between keys (adapter.SampleTree). A key
// with several values is one key. The same key may come twice.
//
// The pages are read beside the map. The caller keeps a read transaction, so that no page is used
// again meanwhile.
func (d *DB) SampleTables(
	ctx context.Context, asked TableOption, n int, seed uint64, yield func(key []byte) error,
) error {
	file, err := d.openPages()
	if err != nil {
		return fmt.Errorf("%s: sample keys: %w", d.config.Name, err)
	}

	mix := asked.Mix
	if len(mix) == 0 {
		mix = []adapter.Portion{{Share: 1}}
	}

	return adapter.SampleMix(mix, n, func(table, n int, yield func([]byte) error) error {
		name := mix[table].Name
		if name == "" {
			name = pagefile.Main
		}

		if none, err := file.IsEmpty(name); none || err != nil {
			return err
		}

		keys, err := adapter.SampleTree(ctx, n, rand.New(rand.NewPCG(seed, 0x6d6d6170)),
			func(choose func(entries int) int) ([]byte, error) {
				return file.Descend(name, choose)
			})
		if err != nil {
			return fmt.Errorf("%s: sample keys: %w", d.config.Name, err)
		}

		for _, key := range keys {
			if err := yield(key); err != nil {
				return err
			}
		}

		return nil
	}, yield)
}

// openPages opens the file at its newest state. Its descriptor stays open as long as the database:
// where locks are of the process, closing it would end those of the library.
func (d *DB) openPages() (*pagefile.File, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.data == nil {
		data, err := os.Open(d.config.Path)
		if err != nil {
			return nil, err
		}
		d.data = data
	}

	for _, layout := range subject.PageFiles() {
		if layout.Engine == d.config.Name {
			return pagefile.New(d.data, d.config.Path, layout)
		}
	}

	return nil, errors.New("the layout of its file is not known")
}
