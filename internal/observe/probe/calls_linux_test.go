package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/subject"
)

// reads are those of one file.
type reads struct {
	t                    *testing.T
	inode                uint64
	count, bytes, device uint64
	seen                 map[int64]bool
}

func (r *reads) Get(*Get)                   {}
func (r *reads) Seek(*Seek)                 {}
func (r *reads) Together(*Together)         {}
func (r *reads) Window(bool, time.Duration) {}
func (r *reads) Second() error              { return nil }
func (r *reads) Read(read *Read) {
	if read.File.Inode != r.inode {
		return
	}
	if read.Offset%blockBytes != 0 || read.Bytes != blockBytes || read.Get != (GetID{}) {
		r.t.Errorf("a read that fio did not make: %+v", read)
	}
	r.count, r.bytes, r.device, r.seen[read.Offset] = r.count+1, r.bytes+uint64(read.Bytes),
		r.device+read.DeviceBytes, true
}

const blockBytes, blocks = 4096, 1000

// Fio reads each block of a file once, past the page cache, by each call that there is: every read
// is seen at its place, and what it asked the device for, too.
func TestReadsOfEveryCall(t *testing.T) {
	if err := Possible(); err != nil {
		t.Skipf("processes cannot be watched here: %v", err)
	}

	fio := testring.Program(t, "fio")
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, blocks*blockBytes), 0o600); err != nil {
		t.Fatal(err)
	}

	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		t.Fatal(err)
	}

	for call, engine := range map[string]string{
		"pread64":  "psync",
		"preadv":   "pvsync",
		"preadv2":  "pvsync2",
		"read":     "sync",
		"readv":    "vsync",
		"io_uring": "io_uring",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			result := path + "." + call
			some := []string{"--name=x", "--thread", "--filename=" + path, "--ioengine=" + engine,
				"--rw=randread", "--bs=4k", "--direct=1"}
			if text, err := exec.Command(fio,
				append(some, "--size=4k")...).CombinedOutput(); err != nil {
				// tmpfs, or a kernel without io_uring
				t.Skipf("fio cannot read so here: %v\n%s", err, text)
			}

			// It begins when it may: the shell becomes fio.
			atOnce := 1
			if call == "io_uring" {
				atOnce = 4
			}

			command := exec.Command("sh",
				append(append([]string{"-c", `read go && exec "$@"`, "sh", fio}, some...),
					fmt.Sprintf("--size=%d", blocks*blockBytes),
					"--output-format=json", "--output="+result,
					fmt.Sprintf("--iodepth=%d", atOnce))...)

			in, err := command.StdinPipe()
			if err == nil {
				err = command.Start()
			}

			if err != nil {
				t.Fatal(err)
			}

			defer command.Process.Kill() // it has ended
			// Nothing in fio is a Get; what is read does not depend on it.
			target := &Target{
				PID:    command.Process.Pid,
				Engine: subject.AllWatched()[0],
				code:   code{places: []place{{}}},
			}

			target.code.file = target.proc("exe")
			p, err := open(target)
			if err == nil {
				target.code.places = nil
				err = p.attach()
			}

			if err != nil {
				t.Fatal(err)
			}

			defer p.Close() // after the test has its answer
			onDevice := p.OnDevice(path) == nil
			seen := &reads{t: t, inode: stat.Ino, seen: map[int64]bool{}}
			done := make(chan error, 1)
			go func() {
				_, err := fmt.Fprintln(in)
				if err == nil {
					err = command.Wait()
				}
				done <- err
			}()

			if err := p.Watch(context.Background(), 1, seen); err != nil {
				t.Fatal(err)
			}

			if err := <-done; err != nil {
				t.Fatal(err)
			}

			var said struct {
				Jobs []struct {
					Read struct {
						Reads uint64 `json:"total_ios"`
						Bytes uint64 `json:"io_bytes"`
					} `json:"read"`
				} `json:"jobs"`
			}

			text, err := os.ReadFile(result)
			if err == nil {
				err = json.Unmarshal(text, &said)
			}

			if err != nil || len(said.Jobs) != 1 {
				t.Fatal(err, string(text))
			}

			fio := said.Jobs[0].Read
			if seen.count != fio.Reads || seen.bytes != fio.Bytes || len(seen.seen) != blocks ||
				fio.Reads != blocks {
				t.Errorf("%d reads of %d bytes, %d blocks; fio made %+v", seen.count, seen.bytes,
					len(seen.seen), fio)
			}

			// Io_uring asks in the thread that submits, before its completion is seen.
			if call != "io_uring" && onDevice && seen.device != fio.Bytes {
				t.Errorf("%d bytes were asked of the device", seen.device)
			}

			if device, err := p.Device(); onDevice && (err != nil || device.Bytes < fio.Bytes) {
				t.Errorf("the process has read %+v of the device (%v)", device, err)
			}
		})
	}
}

// What an event costs is measured, not assumed.
func TestCostIsMeasured(t *testing.T) {
	if err := Possible(); err != nil {
		t.Skipf("processes cannot be watched here: %v", err)
	}

	cost, err := calibrate(subject.AllWatched()[0])
	if err != nil || cost.Get <= 0 {
		t.Errorf("%+v (%v)", cost, err)
	}
}
