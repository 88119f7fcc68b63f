package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/result"
)

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
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare([]byte(stores[a]), []byte(stores[b])) })
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
	b.version, b.stored, b.roots, b.combined = r.Version, r.Version, roots, CombinedRoot(b.stores, roots)
}

// add takes the roots of a version and compares them with the set's own.
func (b *rootBook) add(version int64, roots [][]byte, expected changeset.Roots) error {
	if len(roots) != len(b.stores) {
		return fmt.Errorf("the commit of version %d returned %d roots for %d stores", version, len(roots), len(b.stores))
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
			return engine.Fail(engine.CodeWrong, "wrong root at version %d, store %s: %x, where the change set says %x",
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
	r := result.RootsAt{Version: b.version, Roots: result.Roots{Combined: hex.EncodeToString(b.combined[:]), Stores: map[string]string{}}}
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
