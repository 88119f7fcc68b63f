//go:build !linux

package blockio

import "sync"

// openDirect is of Linux: other systems have no O_DIRECT.
func openDirect(string, *sync.Pool) (*directFile, error) { return nil, errNoDirect }

func (*directFile) fill([]byte, int64) (int, error) { return 0, errNoDirect }
