package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/internal/chain/changeset"
)

// openSet opens the change set at path, in whatever form it is.
func openSet(path string) (changeset.Source, error) {
	return changeset.Open(os.DirFS(filepath.Dir(path)), filepath.Base(path), "")
}

// firstVersion reads the first version of a set that does not tell.
func firstVersion(path string) (version int64, err error) {
	source, err := openSet(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	var batch changeset.Batch
	if err := source.Next(&batch); err == io.EOF {
		return 0, errors.New("the change set has no versions")
	} else if err != nil {
		return 0, fmt.Errorf("read the change set: %w", err)
	}
	return batch.Version, nil
}
