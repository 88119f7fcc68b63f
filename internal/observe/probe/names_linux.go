package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Names tells which files came into folders, without looking through them.
type Names struct {
	descriptor int
	dirs       map[int32]string
	events     [64 << 10]byte
}

// Appeared begins to note the names of files that are made in folders, or moved there.
func Appeared(dirs []string) (*Names, error) {
	descriptor, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch folders: %w", err)
	}

	n := &Names{descriptor: descriptor, dirs: map[int32]string{}}
	for _, dir := range dirs {
		watch, err := unix.InotifyAddWatch(descriptor, dir, unix.IN_CREATE|unix.IN_MOVED_TO)
		if err != nil {
			return nil,
				errors.Join(&fs.PathError{Op: "watch the folder", Path: dir, Err: err}, n.Close())
		}

		n.dirs[int32(watch)] = dir
	}

	return n, nil
}

// Next are the paths that came since the last call.
func (n *Names) Next() (paths []string, err error) {
	for {
		length, err := unix.Read(n.descriptor, n.events[:])
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return paths, nil
		}

		if err != nil {
			return paths, fmt.Errorf("watch folders: %w", err)
		}

		for rest := n.events[:length]; len(rest) >= unix.SizeofInotifyEvent; {
			watch, mask := int32(binary.NativeEndian.Uint32(rest)),
				binary.NativeEndian.Uint32(rest[4:])
			if mask&unix.IN_Q_OVERFLOW != 0 {
				return paths, errors.New("files came and went faster than they were noticed: " +
					"watch again when the node compacts less")
			}

			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name, _, _ := bytes.Cut(rest[unix.SizeofInotifyEvent:end], []byte{0})
			paths = append(paths, filepath.Join(n.dirs[watch], string(name)))
			rest = rest[end:]
		}
	}
}

// Close ends it.
func (n *Names) Close() error { return unix.Close(n.descriptor) }
