package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/result"
)

// series is series.jsonl, a line at a time, so that a kill loses a second.
type series struct {
	file  *os.File
	lines *bufio.Writer
}

func newSeries(dir string) (*series, error) {
	f, err := os.Create(filepath.Join(dir, result.SeriesFile))
	if err != nil {
		return nil, err
	}
	return &series{f, bufio.NewWriter(f)}, nil
}

func (s *series) write(t result.Tick) error {
	if err := json.NewEncoder(s.lines).Encode(t); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	if err := s.lines.Flush(); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	return nil
}

func (s *series) close() error { return s.file.Close() }
