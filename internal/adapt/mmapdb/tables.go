package mmapdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// TableOption is the table that is read: "" is the main one, one with a separator is a mix.
type TableOption struct {
	Text string
	Mix  []adapter.Portion // of Text
}

// Option is the override that sets t.
func (t *TableOption) Option(example string) adapter.Option {
	return adapter.NewOption("table", example, "a name, or a mix such as a=70;b=30", "", func(
		text string,
	) (err error) {
		t.Text = text
		t.Mix, err = adapter.ParseMix(text)
		return err
	}).Means("the table that is read; the main one if none is named")
}

// Check refuses tables where something may be written.
func (t *TableOption) Check(engineName string, o engine.Options) (errs []error) {
	if t.Text != "" && !o.ReadsOnly() {
		errs = append(errs,
			fmt.Errorf("%s: option table=%s: tables are for reading alone: use statelab sweep, "+
				"with --read-only", engineName, t.Text))
	}
	return errs
}

// Tables are those of an open environment, whose handles are of type T.
type Tables[T any] struct {
	Chosen []T            // the table that Gets ask for, or those of a mix
	Named  []engine.Table // that there are
	Values *engine.Values // on pages of their own, of all tables; nil: none
	None   error          // why nothing can be looked up: tables there are, and none was chosen
}

// Choose opens the table that was asked for, or all of a mix. The root of an environment with named
// tables holds their records, which are no keys of anybody.
func Choose[T any, C LibraryCursor](
	txn Txn[T, C], root T, w CursorOps, asked TableOption, open func(name string) (T, error),
	stat func(table T) (Stat, error),
) (t Tables[T], err error) {
	t.Named, err = namedTables(txn, root, w, func(name string) (engine.Table, error) {
		table, err := open(name)
		if err != nil {
			return engine.Table{}, err
		}

		s, err := stat(table)
		t.Values = t.Values.Plus(s.OwnPages())
		return engine.Table{
			Name:          name,
			Keys:          s.Keys,
			Bytes:         s.Bytes,
			Values:        s.OwnPages(),
			SeveralValues: s.SeveralValues,
		}, err
	})
	if err != nil {
		return t, err
	}

	own, err := stat(root)
	if err != nil {
		return t, err
	}

	t.Values = t.Values.Plus(own.OwnPages())
	if asked.Text == "" {
		t.Chosen = []T{root}
		if len(t.Named) > 0 {
			t.None = adapter.ChooseTable("", t.Named)
		}
		return t, nil
	}

	for _, p := range asked.Mix {
		table, err := open(p.Name)
		if err != nil {
			return t, adapter.ChooseTable(p.Name, t.Named)
		}
		t.Chosen = append(t.Chosen, table)
	}

	return t, nil
}

// Stat is what a library tells of a table.
type Stat struct {
	Depth, Keys, Bytes int64
	Overflow           int64 // bytes of the pages that values have of their own
	SeveralValues      bool
}

// OwnPages are the values that have pages of their own; nil: none have.
func (s Stat) OwnPages() *engine.Values {
	if s.Overflow == 0 {
		return nil
	}
	return &engine.Values{Bytes: s.Overflow}
}

// Pages are those that each Get touches; of a mix, those of the flattest table.
func (t *Tables[T]) Pages(stat func(table T) (Stat, error)) (pages Pages, err error) {
	for _, table := range t.Chosen {
		s, err := stat(table)
		if err != nil {
			return pages, err
		}

		pages.More = pages.More || s.Overflow > 0 || s.SeveralValues ||
			pages.Depth > 0 && s.Depth != pages.Depth
		if pages.Depth == 0 || s.Depth < pages.Depth {
			pages.Depth = s.Depth
		}
	}

	return pages, nil
}

// Access is what a file is wanted for.
type Access int16

// What a file can be wanted for, as record locks have it.
const (
	ToRead  Access = unix.F_RDLCK // held by whoever may write
	ToWrite Access = unix.F_WRLCK // held by anybody
)

// IsLocked tells whether somebody's record lock on the file at path stands against
// access to its bytes 0..length; 0 is the whole file. What does not exist is not
// held. No file is changed.
//
// Closing a file drops the process's own classic record locks on it: do not ask
// about a file that this process has locked.
func IsLocked(path string, access Access, length int64) (held bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	defer func() { err = errors.Join(err, file.Close()) }()
	lock := unix.Flock_t{Type: int16(access), Len: length}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("ask who holds %s: %w", path, err)
	}

	return lock.Type != unix.F_UNLCK, nil
}

// CheckDir makes the directory of a new database, or refuses one that does not hold
// data. lock is the file whose first bytes, length of them, tell whether somebody else
// stands against access.
func CheckDir(
	o engine.Options, data, lock string, access Access, length int64, locked error,
) error {
	if err := adapter.CheckDir(o, data); err != nil || o.Create {
		return err
	}
	held, err := IsLocked(filepath.Join(o.Dir, lock), access, length)
	if err == nil && held {
		err = locked
	}
	return err
}
