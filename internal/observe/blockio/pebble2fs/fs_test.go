package pebble2fs

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// formats are the oldest, the last with rows, the first with columns and the
// newest.
var formats = []sstable.TableFormat{
	sstable.TableFormatPebblev1, sstable.TableFormatPebblev4, sstable.TableFormatPebblev5,
	sstable.TableFormatMax,
}

func writeTable(t testing.TB, path string, format sstable.TableFormat, n int) {
	t.Helper()
	file, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
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

// TestLearn compares an anatomy with the properties the writer left.
func TestLearn(t *testing.T) {
	for _, format := range formats {
		path := filepath.Join(t.TempDir(), "000001.sst")
		writeTable(t, path, format, 5000)
		a, err := Learn(path)
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

		for _, kind := range []engine.BlockType{engine.TopIndex, engine.Index} {
			if a.DecodedBytes[kind] < a.Blocks[kind].Bytes-5*a.Blocks[kind].Count {
				t.Errorf("%v: %v is smaller decompressed: %d", format, kind, a.DecodedBytes[kind])
			}
		}
	}
}

func properties(t *testing.T, path string) sstable.Properties {
	t.Helper()
	file, err := blockio.OpenLearning(path)
	if err != nil {
		t.Fatal(err)
	}

	reader, err := sstable.NewReader(context.Background(), readable{file}, sstable.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}

	defer reader.Close()
	p, err := reader.ReadPropertiesBlock(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}

	return p
}

// TestLearnDamaged wants an error, never a panic, for whatever is left of a table.
func TestLearnDamaged(t *testing.T) {
	for _, format := range formats {
		dir := t.TempDir()
		whole, damaged := filepath.Join(dir, "000001.sst"), filepath.Join(dir, "000002.sst")
		writeTable(t, whole, format, 500)
		content, err := os.ReadFile(whole)
		if err != nil {
			t.Fatal(err)
		}

		for cut := 0; cut < len(content); cut += 97 {
			if err := os.WriteFile(damaged, content[:cut], 0o644); err != nil {
				t.Fatal(err)
			}

			if _, err := Learn(damaged); err == nil {
				t.Errorf("%v, %d of %d bytes: learnt", format, cut, len(content))
			}
		}
	}
}

func TestReadOnlyRefusesEveryChange(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "file")
	if err := os.WriteFile(existing, []byte("x"), 0o444); err != nil {
		t.Fatal(err)
	}

	fs, name := ReadOnly(vfs.Default, blockio.ReadOnly{}), filepath.Join(dir, "new")
	_, create := fs.Create(name, vfs.WriteCategoryUnspecified)
	_, readWrite := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	_, reuse := fs.ReuseForWrite(existing, name, vfs.WriteCategoryUnspecified)
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

func TestSyncsCountWhatIsDurable(t *testing.T) {
	recorder := blockio.NewRecorder(nil, false)
	fs := Counting(vfs.Default, recorder)
	file, err := fs.Create(filepath.Join(t.TempDir(), "000001.log"), vfs.WriteCategoryUnspecified)
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
