package replay

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// maxRows is how many lines versions.jsonl has at most: about ten megabytes.
const maxRows = 100_000

// rows write versions.jsonl and events.jsonl. Rows are written between versions,
// outside all times; events come from any goroutine and are kept until then.
type rows struct {
	versions, events *lines // nil: not open
	every            int64  // versions in a row
	row              result.VersionRow
	at               totals // at the end of the last row
	began            time.Time
	committed        atomic.Int64

	mutex sync.Mutex
	told  []result.EventRow
}

// open begins both files, or goes on after version at.
func (r *rows) open(dir string, first, last, at int64, continues bool) (err error) {
	r.began, r.every = time.Now(), 1
	if last != math.MaxInt64 {
		r.every = (last-first)/maxRows + 1
	}

	var versions []result.VersionRow
	var events []result.EventRow
	if continues {
		var wrong error
		versions, err = result.ReadVersions(dir)
		events, wrong = result.ReadEvents(dir)
		if err = errors.Join(err, wrong); err != nil {
			return err
		}

		versions = slices.DeleteFunc(versions, func(v result.VersionRow) bool {
			return v.Version > at
		})
		events = slices.DeleteFunc(events, func(e result.EventRow) bool { return e.At > at })
	}

	r.committed.Store(at)
	if r.versions, err = openLines(dir, result.VersionsFile, versions); err != nil {
		return err
	}

	r.events, err = openLines(dir, result.EventsFile, events)
	return err
}

// tell takes an event at the moment it happens.
func (r *rows) tell(e tree.Event) {
	seconds := time.Since(r.began).Seconds()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.told = append(r.told, result.EventRow{
		Seconds: seconds,
		At:      r.committed.Load(),
		Version: e.Version,
		Step:    e.Step,
	})
}

// add takes a committed version, after which the run's totals are t.
func (r *rows) add(t totals) error {
	r.committed.Store(t.version)
	r.row.Version = t.version
	if r.row.Versions++; r.row.Versions < r.every {
		return nil
	}
	return r.end(t)
}

// end writes the row that has begun, and the events so far.
func (r *rows) end(t totals) error {
	if r.row.Versions == 0 {
		return nil
	}

	sum := t.minus(r.at)
	row := r.row
	row.Seconds, row.Leaves, row.ApplyNanos, row.CommitNanos = time.Since(r.began).Seconds(),
		sum.leaves, sum.applyNanos, sum.commitNanos
	if row.Versions == 1 {
		row.Versions = 0
	}

	r.at, r.row.Versions = t, 0
	return r.versions.write(row)
}

// flush writes the events so far, and what is buffered.
func (r *rows) flush() error {
	r.mutex.Lock()
	told := r.told
	r.told = nil
	r.mutex.Unlock()
	for _, e := range told {
		if err := r.events.write(e); err != nil {
			return err
		}
	}

	return errors.Join(r.versions.buffer.Flush(), r.events.buffer.Flush())
}

func (r *rows) close(t totals) error {
	if r.versions == nil || r.events == nil {
		return nil
	}
	return errors.Join(r.end(t), r.flush(), r.versions.file.Close(), r.events.file.Close())
}

// lines is a file of a JSON object a line.
type lines struct {
	file   *os.File
	buffer *bufio.Writer
}

// openLines begins a file with the earlier lines that are kept. Only when they are
// written does it take the place of the earlier file: a kill loses neither.
func openLines[T any](dir, name string, kept []T) (*lines, error) {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return nil, err
	}

	l := &lines{file: f, buffer: bufio.NewWriter(f)}
	for _, line := range kept {
		err = errors.Join(err, l.write(line))
	}

	if err := errors.Join(err, l.buffer.Flush(), f.Chmod(0o644),
		os.Rename(f.Name(), filepath.Join(dir, name))); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}

	return l, nil
}

func (l *lines) write(v any) error {
	if err := json.NewEncoder(l.buffer).Encode(v); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(l.file.Name()), err)
	}
	return nil
}

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

// maxRoots is how many versions' roots a run folder holds unless more are
// asked for: a few megabytes.
const maxRoots = 10_000

// CombinedRoot is one root over all stores: SHA-256 of, for each store in the
// order of the names' bytes, the length of the name, the name, the length of the
// root and the root; lengths are 4 bytes, big-endian.
func CombinedRoot(stores []string, roots [][]byte) [sha256.Size]byte {
	order := make([]int, len(stores))
	for i := range order {
		order[i] = i
	}

	slices.SortFunc(order, func(a, b int) int {
		return bytes.Compare([]byte(stores[a]), []byte(stores[b]))
	})
	var text []byte
	for _, i := range order {
		text = binary.BigEndian.AppendUint32(text, uint32(len(stores[i])))
		text = append(text, stores[i]...)
		text = binary.BigEndian.AppendUint32(text, uint32(len(roots[i])))
		text = append(text, roots[i]...)
	}

	return sha256.Sum256(text)
}

// rootBook checks roots and keeps them: a sample in roots.jsonl, all in a digest.
type rootBook struct {
	stores []string
	every  int64
	file   *os.File

	digest  [sha256.Size]byte // of all combined roots so far, chained
	checked uint64            // versions compared with the set's own roots

	version  int64 // the last
	roots    [][]byte
	combined [sha256.Size]byte
	stored   int64 // version of the last line
}

// openRoots begins roots.jsonl, or goes on with it after version at.
func openRoots(dir string, stores []string, every, at int64, continues bool) (*rootBook, error) {
	var earlier []result.RootsAt
	var err error
	if continues {
		if earlier, err = result.ReadRoots(dir); err != nil {
			return nil, err
		}
		// Later ones are the tree's to show again.
		earlier = slices.DeleteFunc(earlier, func(r result.RootsAt) bool { return r.Version > at })
	}

	l, err := openLines(dir, result.RootsFile, earlier)
	if err != nil {
		return nil, err
	}

	b := &rootBook{stores: stores, every: every, file: l.file}
	if n := len(earlier); n > 0 && earlier[n-1].Version == at {
		b.adopt(earlier[n-1]) // what is left to replay may be nothing
	}

	return b, nil
}

// adopt takes the last version's roots from its line, if that is whole.
func (b *rootBook) adopt(r result.RootsAt) {
	roots := make([][]byte, len(b.stores))
	for i, store := range b.stores {
		root, err := hex.DecodeString(r.Stores[store])
		if _, known := r.Stores[store]; !known || err != nil {
			return
		}
		roots[i] = root
	}

	b.version, b.stored, b.roots, b.combined = r.Version, r.Version, roots,
		CombinedRoot(b.stores, roots)
}

// add takes the roots of a version and compares them with the set's own.
func (b *rootBook) add(version int64, roots [][]byte, expected changeset.Roots) error {
	if len(roots) != len(b.stores) {
		return fmt.Errorf("the commit of version %d returned %d roots for %d stores", version,
			len(roots), len(b.stores))
	}

	b.version, b.roots, b.combined = version, roots, CombinedRoot(b.stores, roots)
	b.digest = sha256.Sum256(append(b.digest[:], b.combined[:]...))
	if err := b.check(expected); err != nil {
		return err
	}

	if version%b.every != 0 {
		return nil
	}

	b.stored = version
	return b.write(b.last())
}

// check finds the first store whose root is not what the set says.
func (b *rootBook) check(expected changeset.Roots) error {
	compared := false
	for i, want := range expected.Stores {
		if want == nil {
			continue
		}

		compared = true
		if !bytes.Equal(b.roots[i], want) {
			return engine.Fail(engine.CodeWrongAnswer, "wrong root at version %d, store %s: %x, "+
				"where the change set says %x",
				b.version, b.stores[i], b.roots[i], want)
		}
	}

	if compared {
		b.checked++
	}

	return nil
}

// last are the roots of the last version.
func (b *rootBook) last() result.RootsAt {
	r := result.RootsAt{
		Version: b.version,
		Roots: result.Roots{
			Combined: hex.EncodeToString(b.combined[:]),
			Stores:   map[string]string{},
		},
	}

	for i, root := range b.roots {
		r.Stores[b.stores[i]] = hex.EncodeToString(root)
	}

	return r
}

// write is not buffered: a kill loses nothing.
func (b *rootBook) write(r result.RootsAt) error {
	if err := json.NewEncoder(b.file).Encode(r); err != nil {
		return fmt.Errorf("write roots: %w", err)
	}
	return nil
}

// close stores the last version's roots whatever the distance.
func (b *rootBook) close() error {
	var err error
	if b.roots != nil && b.stored != b.version {
		err = b.write(b.last())
	}
	return errors.Join(err, b.file.Close())
}
