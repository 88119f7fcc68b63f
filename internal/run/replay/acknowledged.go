package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/statelab/statelab/result"
)

// acknowledged is a file that always tells the last version a commit returned:
// it outlives a kill of the process, not a power cut.
type acknowledged struct {
	file    *os.File
	version int64
	known   bool
}

// versionDigits is the width of the one number in the file: it is overwritten
// in place.
const versionDigits = 20

func openAcknowledged(dir string, resume bool) (*acknowledged, error) {
	path := filepath.Join(dir, result.AcknowledgedFile)
	a := new(acknowledged)
	if text, err := os.ReadFile(path); err == nil && resume {
		if a.version, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil {
			return nil, fmt.Errorf("read the last acknowledged version: %s holds %.30q", path, text)
		}
		a.known = true
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var err error
	if a.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *acknowledged) write(version int64) error {
	text := fmt.Appendf(nil, "%*d\n", versionDigits, version)
	if _, err := a.file.WriteAt(text, 0); err != nil {
		return fmt.Errorf("write the acknowledged version: %w", err)
	}
	return nil
}

func (a *acknowledged) close() error { return a.file.Close() }
