// Package xatu reads access lists from tables of the Xatu data set, in Parquet files as its public
// archive has them: what transactions read (canonical_execution_storage_reads, _balance_reads,
// _nonce_reads) and change (_storage_diffs, _balance_diffs, _nonce_diffs) of the state.
//
// Goals: files in any order, of any of the tables; memory that does not grow with them.
// Non-goals: fetching files, other tables, nested columns. The form of a list is package accesses'.
// The library allocates what lengths in a damaged file ask for: whoever reads foreign files does it
// in a process of its own with a limit of memory (cmd/statelab-run-parquet).
//
// Read in this order: source.go, table.go.
package xatu

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/encoding"

	"github.com/statelab/statelab/internal/chain/accesses"
)

// windowRows are held in memory at a time, or a block's.
const windowRows = 2 << 20

// ErrNoFiles says that there is no Parquet file.
var ErrNoFiles = errors.New("no file of a table of Xatu: none is called *.parquet")

// Source reads tables.
type Source struct {
	tables []*table
	closer []io.Closer
	info   accesses.Info
	rows   []perBlock // of all tables
	join   *accesses.Joiner
	window []row // of blocks that are read
}

type perBlock struct{ block, rows uint64 }

// Open finds the Parquet files under a name, which may be one.
func Open(fsys fs.FS, name string) (*Source, error) {
	s := &Source{join: accesses.NewJoiner()}
	if err := s.openAll(fsys, name); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Source) openAll(fsys fs.FS, name string) error {
	seen := map[kind]bool{}
	err := fs.WalkDir(fsys, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".parquet" {
			return err
		}

		t, err := s.open(fsys, file)
		if errors.Is(err, errNotTable) {
			return fmt.Errorf("%s: %w: keep other tables elsewhere", file, err)
		}

		if err != nil {
			return unread(file, err)
		}

		s.tables = append(s.tables, t)
		seen[t.kind] = true
		return nil
	})
	if err != nil {
		return err
	}

	if len(s.tables) == 0 {
		return fmt.Errorf("%s: %w", name, ErrNoFiles)
	}

	if err := s.count(); err != nil {
		return err
	}

	var names []string
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		names = append(names, kindNames[k])
	}

	s.info.Form = "tables of Xatu: " + strings.Join(names, ", ")
	s.info.NotChecked = s.notChecked(slices.Sorted(maps.Keys(seen)))
	return nil
}

// notChecked says what the tables cannot show of their completeness.
func (s *Source) notChecked(seen []kind) (all []string) {
	all = []string{"a table of Xatu does not say how many rows a block or a transaction has: " +
		"rows that are missing cannot be seen; their order does not matter, since they are sorted"}
	ofKind, texts := map[kind]span{}, []string{}
	for _, t := range s.tables {
		for _, of := range t.spans {
			whole, known := ofKind[t.kind]
			if !known {
				whole = of
			}
			ofKind[t.kind] = span{min(whole.first, of.first), max(whole.last, of.last)}
		}
	}

	differ := false
	for _, k := range seen {
		differ = differ || ofKind[k] != ofKind[seen[0]]
		texts = append(texts, fmt.Sprintf("%s of blocks %d to %d", kindNames[k], ofKind[k].first,
			ofKind[k].last))
	}

	if differ {
		all = append(all, "the tables do not have the same first and last blocks, so files may be "+
			"missing: "+strings.Join(texts, ", "))
	}

	if missing := kinds - len(seen); missing > 0 {
		all = append(all, fmt.Sprintf("%d of the %d tables of reads and changes are not there: "+
			"what they would tell is missing", missing, kinds))
	}

	return all
}

func (s *Source) open(fsys fs.FS, name string) (*table, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}

	s.closer = append(s.closer, file)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	in, ok := file.(io.ReaderAt)
	if !ok {
		return nil, errors.New("this file cannot be read at an offset")
	}

	return openTable(in, info.Size(), name)
}

// unread says what to do about a file that cannot be read.
func unread(name string, err error) error {
	remedy := "the file is damaged or incomplete, fetch it again"
	switch {
	case errors.Is(err, errOtherForm):
		remedy = "numbers must be integers, addresses and words 0x-hex or bytes; convert the " +
			"column, for example with DuckDB: COPY (SELECT * REPLACE " +
			"(CAST(block_number AS BIGINT) AS block_number) FROM 'OLD') TO 'NEW' (FORMAT parquet)"
	case errors.Is(err, encoding.ErrNotSupported):
		remedy = "write the file again with ordinary encodings, for example with DuckDB: COPY " +
			"(FROM 'OLD') TO 'NEW' (FORMAT parquet)"
	case errors.Is(err, errEncrypted):
		remedy = "decrypt it with the program that wrote it"
	}

	return fmt.Errorf("%s: %w: %s", name, err, remedy)
}

// count learns how many rows each block has.
func (s *Source) count() error {
	rows := map[uint64]uint64{}
	for _, t := range s.tables {
		for group := range t.file.RowGroups() {
			span := span{first: ^uint64(0)}
			if err := t.read(group, true, func(r *row) error {
				rows[r.block]++
				span.first, span.last = min(span.first, r.block), max(span.last, r.block)
				return nil
			}); err != nil {
				return unread(t.name, err)
			}

			t.spans = append(t.spans, span)
		}
	}

	for _, block := range slices.Sorted(maps.Keys(rows)) {
		s.rows = append(s.rows, perBlock{block, rows[block]})
	}

	if len(s.rows) == 0 {
		return errors.New("the files have no rows")
	}

	return nil
}

// span of blocks in a group of rows.
type span struct{ first, last uint64 }

// Info implements accesses.Source.
func (s *Source) Info() accesses.Info { return s.info }

// Close implements accesses.Source.
func (s *Source) Close() (err error) {
	for _, c := range s.closer {
		err = errors.Join(err, c.Close())
	}
	return err
}

// fill reads the rows of the next blocks.
func (s *Source) fill() error {
	n, total := 0, uint64(0)
	for n < len(s.rows) && (n == 0 || total+s.rows[n].rows <= windowRows) {
		total += s.rows[n].rows
		n++
	}

	if total > accesses.MaxAccesses {
		return fmt.Errorf("block %d has %d rows, at most %d are read", s.rows[0].block, total,
			accesses.MaxAccesses)
	}

	first, last := s.rows[0].block, s.rows[n-1].block
	s.rows = s.rows[n:]
	s.window = s.window[:0]
	network := ""
	for _, t := range s.tables {
		for group, of := range t.spans {
			if of.last < first || of.first > last {
				continue
			}

			if err := t.read(group, false, func(r *row) error {
				if r.block >= first && r.block <= last {
					s.window = append(s.window, *r)
				}
				return nil
			}); err != nil {
				return unread(t.name, err)
			}
		}

		if network == "" {
			network = t.network
		}

		if t.network != "" && t.network != network {
			return fmt.Errorf("%s: its rows are of the network %.40q, those of other files of "+
				"%.40q: import one network at a time", t.name, t.network, network)
		}
	}

	// Within a transaction the tables do not tell an order among each other: accounts come first,
	// then slots that are read, then what is written.
	slices.SortStableFunc(s.window, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.tx, b.tx),
			cmp.Compare(turns[a.kind], turns[b.kind]), cmp.Compare(a.internal, b.internal))
	})

	for i := 1; i < len(s.window); i++ {
		a, b := &s.window[i-1], &s.window[i]
		if a.numbered && b.numbered && a.kind == b.kind && a.block == b.block && a.tx == b.tx &&
			a.internal == b.internal {
			return fmt.Errorf("block %d, transaction %d: two rows of %v have the internal_index "+
				"%d: rows, or a file, are there twice; keep one of them", b.block, b.tx, b.kind,
				b.internal)
		}
	}

	return nil
}

var turns = [kinds]int{
	balanceReads: 0,
	nonceReads:   1,
	storageReads: 2,
	balanceDiffs: 3,
	nonceDiffs:   4,
	storageDiffs: 5,
}

// Next implements accesses.Source.
func (s *Source) Next(b *accesses.Block) error {
	if len(s.window) == 0 {
		if len(s.rows) == 0 {
			return io.EOF
		}

		if err := s.fill(); err != nil {
			return err
		}
	}

	n := 1
	for n < len(s.window) && s.window[n].block == s.window[0].block {
		n++
	}

	rows := s.window[:n]
	*b = accesses.Block{Number: rows[0].block, Accesses: b.Accesses[:0]}
	a := adder{
		b:       b,
		before:  map[accesses.Address]int{},
		slots:   map[slotOf]bool{},
		touched: map[accesses.Address]bool{},
	}

	for i := range rows {
		a.row(&rows[i])
	}

	a.tellAccounts()
	s.window = s.window[n:]
	return s.join.Join(b)
}

type slotOf struct {
	accesses.Address
	accesses.Word
}

// adder makes a block of rows.
type adder struct {
	b       *accesses.Block
	before  map[accesses.Address]int // in b.Before
	slots   map[slotOf]bool          // that Before tells
	touched map[accesses.Address]bool
}

func (a *adder) row(r *row) {
	access := accesses.Access{Kind: accesses.Account, Tx: uint32(r.tx) + 1, Address: r.address}
	switch r.kind {
	case storageReads, storageDiffs:
		if !a.touched[r.address] { // its record says where its slots are
			a.b.Accesses = append(a.b.Accesses, access)
		}
		access.Kind, access.Slot, access.Write = accesses.Slot, r.slot, r.kind == storageDiffs
	default:
		access.Write = r.kind == balanceDiffs || r.kind == nonceDiffs
	}

	a.touched[r.address] = true
	a.b.Accesses = append(a.b.Accesses, access)
	v := a.valuesBefore(r.address)
	after := accesses.Values{Address: r.address}
	switch r.kind {
	case storageReads, storageDiffs:
		if at := (slotOf{r.address, r.slot}); !a.slots[at] {
			a.slots[at] = true
			v.Slots = append(v.Slots, accesses.Stored{Slot: r.slot, Value: r.before})
		}
		after.Slots = []accesses.Stored{{Slot: r.slot, Value: r.after}}
	case balanceReads, balanceDiffs:
		if v.Balance == nil {
			v.Balance = new(r.before)
		}
		after.Balance = new(r.after)
	default:
		if v.Nonce == nil {
			v.Nonce = new(nonceOf(r.before))
		}
		after.Nonce = new(nonceOf(r.after))
	}

	if access.Write {
		a.b.After = append(a.b.After, after)
	}
}

func nonceOf(w accesses.Word) uint64 { return binary.BigEndian.Uint64(w[24:]) }

func (a *adder) valuesBefore(address accesses.Address) *accesses.Values {
	i, has := a.before[address]
	if !has {
		i = len(a.b.Before)
		a.before[address] = i
		a.b.Before = append(a.b.Before, accesses.Values{Address: address})
	}
	return &a.b.Before[i]
}

// tellAccounts leaves out what would say that there is no such account where that is not known: the
// tables do not tell of code, and old contracts have neither nonce nor balance.
func (a *adder) tellAccounts() {
	for i := range a.b.Before {
		v := &a.b.Before[i]
		nothing := (v.Nonce == nil || *v.Nonce == 0) &&
			(v.Balance == nil || *v.Balance == (accesses.Word{}))
		if nothing && (v.Nonce == nil || v.Balance == nil || len(v.Slots) > 0) {
			v.Nonce, v.Balance = nil, nil
		}
	}
}
