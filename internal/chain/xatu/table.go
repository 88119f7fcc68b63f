package xatu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/statelab/statelab/internal/chain/accesses"
)

// kind of a table.
type kind int

const (
	storageReads kind = iota
	storageDiffs
	balanceReads
	balanceDiffs
	nonceReads
	nonceDiffs
	kinds int = iota
)

var kindNames = [kinds]string{"storage_reads", "storage_diffs", "balance_reads", "balance_diffs",
	"nonce_reads", "nonce_diffs"}

func (k kind) String() string { return "canonical_execution_" + kindNames[k] }

// columnsOf are a table's beside block_number, transaction_index, internal_index and
// meta_network_name: the account, the slot, the value before, the value after. Cryo, from which
// Xatu's come, has chain_id instead of the last two.
var columnsOf = [kinds][4]string{
	storageReads: {"contract_address", "slot", "value", ""},
	storageDiffs: {"address", "slot", "from_value", "to_value"},
	balanceReads: {"address", "", "balance", ""},
	balanceDiffs: {"address", "", "from_value", "to_value"},
	nonceReads:   {"address", "", "nonce", ""},
	nonceDiffs:   {"address", "", "from_value", "to_value"},
}

var always = [4]string{"block_number", "transaction_index", "internal_index", "meta_network_name"}

// chainID is of tables of cryo.
const chainID = "chain_id"

// row of any table.
type row struct {
	block, tx, internal uint64
	numbered            bool // internal is the row's number in its transaction
	kind                kind
	address             accesses.Address
	slot                accesses.Word
	before, after       accesses.Word
}

// table is a file.
type table struct {
	name    string
	kind    kind
	file    *parquet.File
	columns [8]int // of always and columnsOf; -1: the table has none
	spans   []span // of its groups
	network string
}

// errNotTable is of a file without the columns of a table.
var errNotTable = errors.New("its columns are not those of canonical_execution_storage_reads, " +
	"_storage_diffs, _balance_reads, _balance_diffs, _nonce_reads or _nonce_diffs, of Xatu or cryo")

var (
	// errOtherForm is of a column in a form that Xatu's has not.
	errOtherForm = errors.New("the column is not as in the Xatu data set")
	errEncrypted = errors.New("the file is encrypted")
)

// openTable finds out which table a file is of.
func openTable(in io.ReaderAt, size int64, name string) (t *table, err error) {
	defer caught(&err)
	var magic [4]byte
	if _, err := in.ReadAt(magic[:], 0); err == nil && string(magic[:]) == "PARE" {
		return nil, errEncrypted
	}

	file, err := parquet.OpenFile(in, size, parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%.300v", err) // of a structure in a structure, and so on
	}

	t = &table{name: name, file: file}
	at := map[string]int{}
	for i, c := range file.Root().Columns() {
		if !c.Leaf() || c.Repeated() {
			return nil, fmt.Errorf("%w (column %.80q is a list)", errNotTable, c.Name())
		}
		at[c.Name()] = i
	}

	for k := range kind(kinds) {
		if t.is(k, at) {
			return t, nil
		}
	}

	return nil, errNotTable
}

// is finds the columns of a kind. Balances and nonces that change have the same columns, of other
// types.
func (t *table) is(k kind, at map[string]int) bool {
	for i, name := range append(always[:], columnsOf[k][:]...) {
		t.columns[i] = -1
		if name == "" {
			continue
		}

		column, has := at[name]
		if chain, of := at[chainID]; !has && of && i >= 2 && i < len(always) {
			if column, has = -1, true; i == 3 {
				column = chain
			}
		}

		if !has {
			return false
		}

		t.columns[i] = column
	}

	if _, has := at["slot"]; has != (columnsOf[k][1] != "") {
		return false
	}

	number := t.file.Root().Columns()[t.columns[6]].Type().Kind()
	small := number == parquet.Int64 || number == parquet.Int32
	if (k == nonceReads || k == nonceDiffs) != small {
		return false
	}

	t.kind = k
	return true
}

// caught makes an error of a panic of the library, which indexes damaged pages without checks.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("its pages contradict each other (%.200v)", p)
	}
}

// read visits the rows of a group: all columns, or with the block alone its number.
func (t *table) read(group int, blockAlone bool, visit func(r *row) error) (err error) {
	defer caught(&err)
	rows, chunks := t.file.RowGroups()[group].NumRows(), t.file.RowGroups()[group].ColumnChunks()
	var readers [8]*values
	for i, column := range t.columns {
		if column < 0 || blockAlone && i > 0 {
			continue
		}

		readers[i] = &values{
			name: t.file.Root().Columns()[column].Name(),
			from: parquet.NewColumnChunkValueReader(chunks[column]),
		}

		defer readers[i].from.Close() // it was only read
	}

	for n := range rows {
		var r row
		err := t.row(&readers, blockAlone, &r)
		if err == io.EOF {
			err = errors.New("it ends early")
		}

		if err != nil {
			return fmt.Errorf("row %d of group %d (block %d): %w", n+1, group+1, r.block, err)
		}

		if err := visit(&r); err != nil {
			return err
		}
	}

	for _, v := range readers {
		if v == nil {
			continue
		}

		if _, err := v.next(); err != io.EOF {
			return fmt.Errorf("column %s has more than the %d values of group %d", v.name, rows,
				group+1)
		}
	}

	return nil
}

// row reads the next one.
func (t *table) row(readers *[8]*values, blockAlone bool, r *row) (err error) {
	r.kind = t.kind
	if r.block, err = readers[0].uint64(); err != nil || blockAlone {
		return err
	}

	if r.tx, err = readers[1].uint64(); err != nil {
		return err
	}

	if r.numbered = readers[2] != nil; r.numbered {
		if r.internal, err = readers[2].uint64(); err != nil {
			return err
		}
	}

	if r.tx >= 1<<32-1 {
		return fmt.Errorf("transaction %d", r.tx)
	}

	network, err := readers[3].network()
	if err != nil {
		return err
	}

	if t.network == "" {
		t.network = strings.Clone(network)
	}

	if network != t.network {
		return fmt.Errorf(
			"the network %.40q, where rows before are of %.40q: one network at a time",
			network,
			t.network,
		)
	}

	address, err := readers[4].text()
	if err == nil {
		err = fixed(r.address[:], address, r.address.UnmarshalText)
	}

	if err != nil {
		return fmt.Errorf("column %s: %w", readers[4].name, err)
	}

	for i, into := range []*accesses.Word{&r.slot, &r.before, &r.after} {
		v := readers[5+i]
		if v == nil {
			continue
		}

		if err := v.word(into, t.kind); err != nil {
			return fmt.Errorf("account %v: column %s: %w", r.address, v.name, err)
		}
	}

	return nil
}

// values are a column's.
type values struct {
	name string
	from parquet.ColumnChunkValueReader
	some [256]parquet.Value
	left []parquet.Value
}

// next is io.EOF behind the last.
func (v *values) next() (parquet.Value, error) {
	if len(v.left) == 0 {
		n, err := v.from.ReadValues(v.some[:])
		if v.left = v.some[:n]; n == 0 && err == io.EOF {
			return parquet.Value{}, io.EOF
		} else if n == 0 {
			return parquet.Value{}, fmt.Errorf("column %s: %w", v.name, err)
		}
	}

	value := v.left[0]
	v.left = v.left[1:]
	if value.IsNull() {
		return value, fmt.Errorf("%w: column %s is null", errOtherForm, v.name)
	}

	return value, nil
}

func (v *values) uint64() (uint64, error) {
	value, err := v.next()
	if err != nil {
		return 0, err
	}

	switch value.Kind() {
	case parquet.Int64:
		return value.Uint64(), nil
	case parquet.Int32:
		return uint64(value.Uint32()), nil
	}

	return 0, fmt.Errorf("%w: column %s is not of integers", errOtherForm, v.name)
}

// network is a name, or the id of a chain.
func (v *values) network() (string, error) {
	if v.name == chainID {
		id, err := v.uint64()
		return strconv.FormatUint(id, 10), err
	}
	name, err := v.text()
	return string(name), err
}

func (v *values) text() ([]byte, error) {
	value, err := v.next()
	if err != nil {
		return nil, err
	}
	if kind := value.Kind(); kind != parquet.ByteArray && kind != parquet.FixedLenByteArray {
		return nil, fmt.Errorf("%w: column %s is not of text", errOtherForm, v.name)
	}
	return value.ByteArray(), nil
}

// fixed copies bytes as they are, as other writers than Xatu have them, or reads 0x-hex.
func fixed(into, text []byte, unmarshal func([]byte) error) error {
	if len(text) == len(into) {
		copy(into, text)
		return nil
	}
	if err := unmarshal(text); err != nil {
		return fmt.Errorf("%w: %w", errOtherForm, err)
	}
	return nil
}

// maxBalance is far above all ether there is: a balance in another byte order exceeds it.
const maxBalanceBytes = 16

// word reads a slot's key or value as 0x-hex, a balance as ClickHouse's UInt256, a nonce as an
// integer.
func (v *values) word(into *accesses.Word, k kind) error {
	switch k {
	case storageReads, storageDiffs:
		text, err := v.text()
		if err != nil {
			return err
		}
		return fixed(into[:], text, into.UnmarshalText)
	case nonceReads, nonceDiffs:
		n, err := v.uint64()
		binary.BigEndian.PutUint64(into[24:], n)
		return err
	}

	text, err := v.text()
	if err != nil {
		return err
	}

	if len(text) != len(into) {
		return fmt.Errorf("a balance of %d bytes, where ClickHouse writes a UInt256 of %d",
			len(text), len(into))
	}

	for i, b := range text { // little endian
		into[len(into)-1-i] = b
		if i >= maxBalanceBytes && b != 0 {
			return errors.New("a balance of more than all ether: a UInt256 of ClickHouse is " +
				"little endian")
		}
	}

	return nil
}
