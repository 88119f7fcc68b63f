//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/unit"
)

const (
	// volumeLabel marks an image as ours: VolumeRemove deletes no other file.
	volumeLabel = "statelab"
	// minVolumeBytes leaves room for ext4's journal.
	minVolumeBytes = 16 << 20
)

// VolumeCreate makes a file of size bytes, an ext4 filesystem in it, and mounts
// it through a loop device of its own, whose counters then are those of the
// databases inside. The loop device reads its file with O_DIRECT, so that a
// read is not served from a second page cache. It needs root and mkfs.ext4.
//
// The mount point is imagePath with ".mount" added. Nothing is left behind on
// failure. Detaching is the kernel's: the loop device ends with the mount, even
// if this process is killed.
func VolumeCreate(
	ctx context.Context, imagePath string, size int64,
) (mountPoint string, err error) {
	defer wrap(&err, "create volume %s", imagePath)
	mkfs, err := volumeNeeds(imagePath, size)
	if err != nil {
		return "", err
	}
	return createVolume(ctx, mkfs, imagePath, size)
}

// VolumeRemove unmounts the volume and deletes its image and mount point. What
// is gone already is no error; an image that is not a volume is one.
func VolumeRemove(imagePath string) (err error) {
	defer wrap(&err, "remove volume %s", imagePath)
	ours, err := isVolume(imagePath)
	imageGone := errors.Is(err, os.ErrNotExist)
	switch {
	case imageGone:
	case err != nil:
		return err
	case !ours:
		return errors.New("it is not a volume made here, so it is not deleted")
	}

	if err := removeMount(mountPointOf(imagePath)); err != nil || imageGone {
		return err
	}

	return os.Remove(imagePath)
}

// volumeNeeds checks everything before the disk is touched.
func volumeNeeds(imagePath string, size int64) (mkfs string, err error) {
	var problems []error
	if os.Geteuid() != 0 {
		problems = append(problems, errors.New("mounting needs root"))
	} else if err := loopDevices(); err != nil {
		problems = append(problems, err)
	}

	mkfs, err = mkfsPath()
	if err != nil {
		problems = append(problems, err)
	}

	if size < minVolumeBytes {
		problems = append(problems,
			fmt.Errorf("%s is too small for a filesystem: at least %s", unit.Bytes(size),
				unit.Bytes(minVolumeBytes)))
	}

	free, err := FreeBytes(filepath.Dir(imagePath))
	if err != nil {
		problems = append(problems, err)
	} else if free < size {
		problems = append(problems,
			fmt.Errorf("no space: %s free, %s wanted", unit.Bytes(free), unit.Bytes(size)))
	}

	return mkfs, errors.Join(problems...)
}

func loopDevices() error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("no loop devices here: %w", err)
	}
	return control.Close()
}

// mkfsPath looks where root's programs are, too: PATH often leaves them out.
func mkfsPath() (string, error) {
	for _, name := range []string{"mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no mkfs.ext4: install e2fsprogs")
}

func createVolume(
	ctx context.Context, mkfs, imagePath string, size int64,
) (mountPoint string, err error) {
	image, err := os.OpenFile(imagePath, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}

	defer func() {
		err = errors.Join(err, image.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(imagePath))
		}
	}()

	if err := unix.Fallocate(int(image.Fd()), 0, 0, size); err != nil {
		return "", fmt.Errorf("reserve %s: %w", unit.Bytes(size), err)
	}

	if err := makeFilesystem(ctx, mkfs, imagePath); err != nil {
		return "", err
	}

	loop, err := attach(image)
	if err != nil {
		return "", err
	}

	// The mount holds the device from then on; without one, closing detaches it.
	defer func() { err = errors.Join(err, loop.Close()) }()

	mountPoint = mountPointOf(imagePath)
	if err := os.Mkdir(mountPoint, 0o755); err != nil {
		return "", err
	}

	if err := unix.Mount(loop.Name(), mountPoint, "ext4", unix.MS_NOATIME|unix.MS_NODEV|
		unix.MS_NOSUID, ""); err != nil {
		return "", errors.Join(fmt.Errorf("mount %s: %w", loop.Name(), err), os.Remove(mountPoint))
	}

	return mountPoint, nil
}

func mountPointOf(imagePath string) string { return imagePath + ".mount" }

// makeFilesystem leaves nothing for later: a lazy mkfs lets the kernel write
// inode tables while the measurement runs.
func makeFilesystem(ctx context.Context, mkfs, imagePath string) error {
	command := exec.CommandContext(ctx, mkfs, "-q", "-F", "-b", "4096", "-m", "0", "-L",
		volumeLabel,
		"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", imagePath)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// attach gives image a loop device of its own that detaches when its last user
// closes it.
func attach(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}

	defer control.Close()
	const tries = 20 // others may take the free one first
	for range tries {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}

		loop, err := os.OpenFile("/dev/loop"+strconv.Itoa(number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}

		err = configure(loop, image)
		if err == nil {
			return loop, nil
		}

		if err := errors.Join(err, loop.Close()); !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}

	return nil, fmt.Errorf("every loop device was taken by others, %d times", tries)
}

func configure(loop, image *os.File) error {
	config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: 512}
	config.Info.Flags = unix.LO_FLAGS_DIRECT_IO | unix.LO_FLAGS_AUTOCLEAR
	name := config.Info.File_name[:]
	copy(name[:len(name)-1], image.Name())
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err != nil {
		return fmt.Errorf("configure %s: %w", loop.Name(), err)
	}

	status, err := unix.IoctlLoopGetStatus64(int(loop.Fd()))
	if err != nil {
		return fmt.Errorf("ask %s for its state: %w", loop.Name(), err)
	}

	if status.Flags&unix.LO_FLAGS_DIRECT_IO == 0 {
		return fmt.Errorf("the filesystem of %s does not let a loop device read with O_DIRECT in "+
			"units of 512 bytes", image.Name())
	}

	return nil
}

func removeMount(mountPoint string) error {
	if _, err := os.Stat(mountPoint); errors.Is(err, os.ErrNotExist) {
		return nil
	}

	const notMounted = unix.EINVAL
	err := unix.Unmount(mountPoint, 0)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s is in use", mountPoint)
	}

	if err != nil && !errors.Is(err, notMounted) {
		return fmt.Errorf("unmount %s: %w", mountPoint, err)
	}

	return os.Remove(mountPoint)
}

// isVolume looks for ext4's magic number and our label in the superblock.
func isVolume(imagePath string) (bool, error) {
	image, err := os.Open(imagePath)
	if err != nil {
		return false, err
	}

	defer image.Close()
	const superblock, magicAt, labelAt, labelBytes = 1024, 56, 120, 16
	var b [labelAt + labelBytes]byte
	if _, err := image.ReadAt(b[:], superblock); err != nil {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, err
	}

	label := strings.TrimRight(string(b[labelAt:]), "\x00")
	return b[magicAt] == 0x53 && b[magicAt+1] == 0xef && label == volumeLabel, nil
}
