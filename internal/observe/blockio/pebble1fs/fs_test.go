package pebble1fs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/bloom"
	"github.com/cockroachdb/pebble/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/sstable"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
)

// writeTable makes a table of n keys with a filter and small index blocks.
func writeTable(t testing.TB, path string, format sstable.TableFormat, n int) {
	t.Helper()
	file, err := vfs.Default.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	w := sstable.NewWriter(objstorageprovider.NewFileWritable(file), sstable.WriterOptions{
		TableFormat:    format,
		BlockSize:      1024,
		IndexBlockSize: 512,
		FilterPolicy:   bloom.FilterPolicy(10),
	})

	rng := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		key := []byte{byte(i >> 16), byte(i >> 8), byte(i)}
		if err := w.Set(key,
			[]byte(strings.Repeat(string(rune('a'+rng.IntN(26))), 40))); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLearn compares anatomies of v1's tables, as the reader of v2 learns them, with
// the properties that the writer left.
func TestLearn(t *testing.T) {
	for format := sstable.TableFormatRocksDBv2; format <= sstable.TableFormatMax; format++ {
		path := filepath.Join(t.TempDir(), "000001.sst")
		writeTable(t, path, format, 5000)
		a, err := pebble2fs.Learn(path)
		if err != nil {
			t.Fatal(format, err)
		}

		p := properties(t, path)
		if a.Entries != p.NumEntries || a.Entries != 5000 {
			t.Errorf("%v: %d entries, want %d", format, a.Entries, p.NumEntries)
		}

		if got := a.Blocks[engine.Data]; uint64(got.Count) != p.NumDataBlocks ||
			uint64(got.Bytes) != p.DataSize {
			t.Errorf("%v: data %+v, the properties say %d blocks of %d bytes", format, got,
				p.NumDataBlocks, p.DataSize)
		}

		if got := a.Blocks[engine.Index]; uint64(got.Count) != p.IndexPartitions || got.Count < 2 {
			t.Errorf("%v: %d index blocks, the properties say %d", format, got.Count,
				p.IndexPartitions)
		}

		if got := a.Blocks[engine.Filter].Bytes; uint64(got) != p.FilterSize+5 {
			t.Errorf("%v: filter of %d bytes, the properties say %d and a trailer", format, got,
				p.FilterSize)
		}

		raw := p.RawKeySize + p.RawValueSize
		if got := a.DecodedBytes[engine.Data]; uint64(got) < raw*9/10 || uint64(got) > raw*12/10 {
			t.Errorf("%v: data of %d bytes when decompressed, keys and values alone are %d",
				format, got, raw)
		}
	}
}

func properties(t *testing.T, path string) sstable.Properties {
	t.Helper()
	file, err := vfs.Default.Open(path)
	if err != nil {
		t.Fatal(err)
	}

	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		t.Fatal(err)
	}

	reader, err := sstable.NewReader(readable, sstable.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}

	defer reader.Close()
	return reader.Properties
}

// TestLearnDamaged wants an error, never a panic, for whatever is left of a table.
func TestLearnDamaged(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "000001.sst")
	writeTable(t, whole, sstable.TableFormatRocksDBv2, 500)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}

	damaged := filepath.Join(dir, "000002.sst")
	try := func(name string, content []byte) {
		if err := os.WriteFile(damaged, content, 0o644); err != nil {
			t.Fatal(err)
		}

		if _, err := pebble2fs.Learn(damaged); err == nil {
			t.Errorf("%s: learnt", name)
		}
	}

	for cut := 0; cut < len(content); cut += 97 {
		try("cut", content[:cut])
	}

	// The last kilobyte holds indexes, properties and footer.
	for at := len(content) - 53; at < len(content)-20; at += 3 {
		flipped := append([]byte(nil), content...)
		flipped[at] ^= 0x55
		if err := os.WriteFile(damaged, flipped, 0o644); err != nil {
			t.Fatal(err)
		}

		_, _ = pebble2fs.Learn(damaged) // padding may be flipped unnoticed
	}
}

func TestReadOnlyRefusesEveryChange(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "file")
	if err := os.WriteFile(existing, []byte("x"), 0o444); err != nil {
		t.Fatal(err)
	}

	fs, name := ReadOnly(vfs.Default, blockio.ReadOnly{}), filepath.Join(dir, "new")
	_, create := fs.Create(name)
	_, readWrite := fs.OpenReadWrite(name)
	_, reuse := fs.ReuseForWrite(existing, name)
	for operation, err := range map[string]error{
		"Create":        create,
		"OpenReadWrite": readWrite,
		"ReuseForWrite": reuse,
		"Link":          fs.Link(existing, name),
		"Remove":        fs.Remove(existing),
		"RemoveAll":     fs.RemoveAll(dir),
		"Rename":        fs.Rename(existing, name),
		"MkdirAll":      fs.MkdirAll(name, 0o755),
	} {
		if err == nil {
			t.Errorf("%s: allowed", operation)
		}
	}

	lock, err := fs.Lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}

	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}

	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

// TestVanished: a table that is gone must not look like fs.ErrNotExist, on
// which Pebble ends the process.
func TestVanished(t *testing.T) {
	_, err := ReadOnly(vfs.Default, blockio.ReadOnly{IgnoreLock: true}).Open(filepath.Join(
		t.TempDir(),
		"000001.sst",
	))
	if engine.CodeOf(err) != engine.CodeInUse || errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkReadAt compares a table read through the wrapper with a bare one.
func BenchmarkReadAt(b *testing.B) {
	path := filepath.Join(b.TempDir(), "000001.sst")
	writeTable(b, path, sstable.TableFormatRocksDBv2, 50_000)
	recorder := blockio.NewRecorder(pebble2fs.Learn, false)
	for _, c := range []struct {
		name string
		fs   vfs.FS
	}{{"bare", vfs.Default}, {"wrapped", Counting(vfs.Default, recorder)}} {
		b.Run(c.name, func(b *testing.B) {
			file, err := c.fs.Open(path)
			if err != nil {
				b.Fatal(err)
			}

			defer file.Close()
			p := make([]byte, 4096)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := file.ReadAt(p, int64(i%64)*4096); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestSyncsCountWhatIsDurable(t *testing.T) {
	recorder := blockio.NewRecorder(nil, false)
	fs := Counting(vfs.Default, recorder)
	file, err := fs.Create(filepath.Join(t.TempDir(), "000001.log"))
	if err != nil {
		t.Fatal(err)
	}

	write := func(n int) {
		if _, err := file.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}

	write(100)
	write(20)
	if calls, bytes := recorder.Syncs.Total(); calls != 0 || bytes != 0 {
		t.Errorf("%d bytes synced by %d calls before any", bytes, calls)
	}

	if err := errors.Join(file.Sync(), file.SyncData()); err != nil {
		t.Fatal(err)
	}

	write(7)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	if calls, bytes := recorder.Syncs.Total(); calls != 2 || bytes != 120 {
		t.Errorf("%d bytes synced by %d calls, want 120 by 2", bytes, calls)
	}
}
