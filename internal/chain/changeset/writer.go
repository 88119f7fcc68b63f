package changeset

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/internal/base/frames"
	"github.com/statelab/statelab/internal/base/schema"
)

// Header is what a container says of itself before its changes.
type Header struct {
	Order      Order
	RootRule   string // "" if no roots are expected
	Provenance string
	// NotChecked are sentences on what could not be checked of the completeness of what it is from.
	NotChecked []string
}

// Writer writes a container as a stream. A version is Begin, Changes, End. Until
// Close has returned nil the file has no footer: write it beside its place and
// rename it. After an error the writer is finished. Not safe for concurrent use.
type Writer struct {
	out     io.Writer
	encoder *zstd.Encoder
	offset  int64
	raw     []byte // of the frame being filled
	frame   []byte // as stored
	entry   indexEntry
	index   []indexEntry

	stores  *storeTable
	totals  Totals
	first   int64
	changes int64 // of the version being written
	check   *checker
	err     error
}

// NewWriter writes the header to out.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("make a compressor: %w", err)
	}

	text, err := json.Marshal(header{Schema: schema.ChangeSet, Order: h.Order.String(),
		RootRule: h.RootRule, Provenance: h.Provenance, NotChecked: h.NotChecked})
	if err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}

	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("a provenance of %d bytes: at most %d", len(h.Provenance),
			maxHeaderBytes)
	}

	w := &Writer{
		out:     out,
		encoder: encoder,
		stores:  &storeTable{numbers: map[string]int{}},
		check:   newChecker(h.Order),
	}

	if err := w.write(frames.Append([]byte(magic), encoder, headerFrame, text)); err != nil {
		return nil, err
	}

	return w, nil
}

// Store is the number of the store called name, which it registers.
func (w *Writer) Store(name string) (int, error) {
	known := len(w.stores.names)
	number, err := w.stores.add([]byte(name))
	if err != nil || number < known {
		return number, err
	}
	w.totals.Stores = append(w.totals.Stores, StoreTotals{})
	w.raw = appendSized(binary.AppendUvarint(w.raw, nameTag), []byte(name))
	return number, nil
}

// Begin opens version, which is above all before it.
func (w *Writer) Begin(version int64) error {
	if w.err != nil {
		return w.err
	}

	if err := w.check.begin(version); err != nil {
		return w.fail(err)
	}

	if w.first == 0 {
		w.first = version
	}

	w.changes = 0
	w.begin(0)
	return nil
}

// begin writes that the version begins, or goes on with again = 1.
func (w *Writer) begin(again uint64) {
	if w.entry.version == 0 {
		w.entry.version, w.entry.again = w.check.version, again == 1
	}
	w.raw = binary.AppendUvarint(w.raw, beginTag|again<<tagBits)
	w.raw = binary.AppendUvarint(w.raw, uint64(w.check.version))
}

// Change adds one change to the open version.
func (w *Writer) Change(c Change) error {
	if w.err != nil {
		return w.err
	}

	if err := w.admit(c); err != nil {
		return w.fail(err)
	}

	if len(w.raw) >= targetFrameBytes {
		if err := w.flush(); err != nil {
			return err
		}
		w.begin(1)
	}

	w.totals.Stores[c.Store].count(c)
	if c.Delete {
		w.raw = appendSized(binary.AppendUvarint(w.raw, deleteTag|uint64(c.Store)<<tagBits), c.Key)
	} else {
		w.raw = binary.AppendUvarint(w.raw, setTag|uint64(c.Store)<<tagBits)
		w.raw = binary.AppendUvarint(w.raw, uint64(len(c.Key)))
		w.raw = binary.AppendUvarint(w.raw, uint64(len(c.Value)))
		w.raw = append(w.raw, c.Key...)
		w.raw = append(w.raw, c.Value...)
	}

	w.changes++
	return nil
}

func (w *Writer) admit(c Change) error {
	if !w.check.open {
		return errors.New("a change outside of a version")
	}

	if c.Store < 0 || c.Store >= len(w.stores.names) {
		return fmt.Errorf("store %d of %d", c.Store, len(w.stores.names))
	}

	if err := checkKey(uint64(len(c.Key))); err != nil {
		return err
	}

	if err := checkValue(uint64(len(c.Value))); err != nil {
		return fmt.Errorf("key %x: %w", c.Key, err)
	}

	return w.check.change(c.Store, c.Key)
}

// End closes the open version.
func (w *Writer) End(r Roots) error {
	if w.err != nil {
		return w.err
	}

	if !w.check.open {
		return w.fail(errors.New("an end without a version"))
	}

	known := uint64(0)
	if r.Known() {
		if err := r.check(len(w.stores.names)); err != nil {
			return w.fail(err)
		}
		known = 1
		w.totals.Roots++
	}

	w.raw = binary.AppendUvarint(w.raw, endTag|known<<tagBits)
	if known == 1 {
		w.raw = appendSized(w.raw, r.Combined)
		w.raw = binary.AppendUvarint(w.raw, uint64(len(r.Stores)))
		for _, root := range r.Stores {
			w.raw = appendSized(w.raw, root)
		}
	}

	w.raw = binary.AppendUvarint(w.raw, uint64(w.changes))
	w.check.end()
	w.totals.Versions++
	w.totals.Changes += w.changes
	if len(w.raw) >= targetFrameBytes {
		return w.flush()
	}

	return nil
}

func (r Roots) check(stores int) error {
	if len(r.Stores) > stores {
		return fmt.Errorf("roots of %d stores, the set has %d", len(r.Stores), stores)
	}

	for _, root := range append(r.Stores[:len(r.Stores):len(r.Stores)], r.Combined) {
		if len(root) > MaxRootBytes || root != nil && len(root) == 0 {
			return fmt.Errorf("a root of %d bytes: from 1 to %d", len(root), MaxRootBytes)
		}
	}

	return nil
}

// appendSized appends bytes behind their length.
func appendSized(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// Append writes a batch whose store numbers are the writer's: the whole of a
// version comes in one or several.
func (w *Writer) Append(b *Batch) error {
	if !w.check.open || w.check.version != b.Version {
		if err := w.Begin(b.Version); err != nil {
			return err
		}
	}

	for _, c := range b.Changes {
		if err := w.Change(c); err != nil {
			return err
		}
	}

	if b.Last {
		return w.End(b.Roots)
	}

	return nil
}

// ProgressFunc hears of every version that was dealt with; its error ends the work. A nil
// Told hears nothing.
type ProgressFunc func(version int64) error

func (t ProgressFunc) report(b *Batch) error {
	if t == nil || !b.Last {
		return nil
	}
	return t(b.Version)
}

// Copy writes all of s, registering its stores under their names.
func (w *Writer) Copy(s Source, told ProgressFunc) error {
	numbers := []int{}
	return Each(s, &Batch{}, func(b *Batch) error {
		for _, name := range s.Info().Stores[len(numbers):] {
			number, err := w.Store(name)
			if err != nil {
				return err
			}
			numbers = append(numbers, number)
		}

		for i := range b.Changes {
			b.Changes[i].Store = numbers[b.Changes[i].Store]
		}

		b.Roots = b.Roots.renumbered(numbers, len(w.stores.names))
		if err := w.Append(b); err != nil {
			return err
		}

		return told.report(b)
	})
}

func (r Roots) renumbered(numbers []int, stores int) Roots {
	if r.Stores == nil {
		return r
	}
	to := Roots{Combined: r.Combined, Stores: make([][]byte, stores)}
	for from, root := range r.Stores {
		to.Stores[numbers[from]] = root
	}
	return to
}

// Close writes the footer. It does not close what NewWriter was given.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}

	if w.check.open {
		return w.fail(fmt.Errorf("version %d has no end", w.check.version))
	}

	if err := w.flush(); err != nil {
		return err
	}

	footerOffset := w.offset
	w.frame = frames.Append(w.frame[:0], w.encoder, footerFrame, w.footer())
	at := len(w.frame)
	w.frame = binary.LittleEndian.AppendUint64(w.frame, uint64(footerOffset))
	w.frame = binary.LittleEndian.AppendUint32(w.frame, frames.Checksum(w.frame[at:]))
	w.frame = append(w.frame, endMagic...)
	if err := w.write(w.frame); err != nil {
		return err
	}

	w.err = errors.New("the container is closed")
	return nil
}

func (w *Writer) footer() []byte {
	raw := binary.AppendUvarint(nil, uint64(len(w.stores.names)))
	for i, name := range w.stores.names {
		raw = appendSized(raw, []byte(name))
		t := w.totals.Stores[i]
		for _, n := range []int64{t.Sets, t.Deletes, t.KeyBytes, t.ValueBytes} {
			raw = binary.AppendUvarint(raw, uint64(n))
		}
	}

	for _, n := range []int64{w.totals.Versions, w.totals.Changes, w.totals.Roots, w.first,
		w.check.version, int64(len(w.index))} {
		raw = binary.AppendUvarint(raw, uint64(n))
	}

	previous := int64(0)
	for _, e := range w.index {
		again := uint64(0)
		if e.again {
			again = 1
		}

		raw = binary.AppendUvarint(raw, again|uint64(e.version-previous)<<1)
		raw = binary.AppendUvarint(raw, uint64(e.bytes))
		previous = e.version
	}

	return raw
}

// flush writes the frame that was filled, if there is anything in it.
func (w *Writer) flush() error {
	if len(w.raw) == 0 {
		return nil
	}

	if w.entry.version == 0 { // names only
		w.entry.version, w.entry.again = w.check.version, true
	}

	w.entry.offset = w.offset
	w.frame = frames.Append(w.frame[:0], w.encoder, changesFrame, w.raw)
	if err := w.write(w.frame); err != nil {
		return err
	}

	w.entry.bytes = w.offset - w.entry.offset
	w.index = append(w.index, w.entry)
	w.raw, w.entry = w.raw[:0], indexEntry{}
	return nil
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.offset += int64(n)
	if err != nil {
		return w.fail(fmt.Errorf("write: %w", err))
	}
	return nil
}

func (w *Writer) fail(err error) error {
	if w.check != nil && w.check.version > 0 {
		err = fmt.Errorf("version %d: %w", w.check.version, err)
	}
	w.err = err
	return err
}

// Write writes s in statelab's own format; provenance "" is that of s.
func Write(out io.Writer, s Source, provenance string, told ProgressFunc) error {
	info := s.Info()
	w, err := NewWriter(out, Header{
		Order:      info.Order,
		RootRule:   info.RootRule,
		Provenance: cmp.Or(provenance, info.Provenance),
		NotChecked: info.NotChecked,
	})
	if err != nil {
		return err
	}

	if info.Complete { // stores without a change too: they have roots
		for _, name := range info.Stores {
			if _, err := w.Store(name); err != nil {
				return err
			}
		}
	}

	if err := w.Copy(s, told); err != nil {
		return err
	}

	return w.Close()
}
