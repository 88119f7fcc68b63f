//go:build !linux

package pagefile

import "os"

// openBeside opens a file for reading. Processes are watched on Linux only, where reading it does
// not change what is in the page cache.
func openBeside(path string) (*os.File, error) { return os.Open(path) }
