package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/conformance"
)

func (s suite) testReopen(t *testing.T) {
	dir := newDir(t)
	db := s.open(t, engine.Options{Dir: dir, Create: true})
	load(t, db, 2000)
	w := writer(t, db)
	must(t, w.Delete(keyOf(7)))
	must(t, w.Put(keyOf(8), []byte("new")))
	must(t, w.Commit())
	must(t, w.Put(keyOf(9), []byte("never committed")))
	must(t, w.Close())
	must(t, db.Sync(t.Context()))
	must(t, db.Close())

	db = s.open(t, engine.Options{Dir: dir})
	r := reader(t, db)
	expectMissing(t, r, keyOf(7))
	expect(t, r, keyOf(8), []byte("new"))
	for i := uint64(9); i < 2000; i++ {
		expect(t, r, keyOf(i), valueOf(i))
	}

	must(t, db.Close())
}

// What a child process does instead of the test.
const (
	childJob = "STATELAB_ENGINETEST_JOB"
	childDir = "STATELAB_ENGINETEST_DIR"

	jobWrite = "write" // load, sync, say so, write on until killed
	jobHold  = "hold"  // open, say so, stay until killed

	childReady = "ready"

	syncedKeys = 3000
	perBatch   = 10
)

// child never returns.
func child(e engine.Engine, job, dir string) {
	fmt.Fprintln(os.Stderr, doChildJob(e, job, dir))
	os.Exit(1)
}

// doChildJob returns only when it fails.
func doChildJob(e engine.Engine, job, dir string) error {
	ctx := context.Background()
	db, err := e.Open(ctx,
		engine.Options{Dir: dir, Create: job == jobWrite, CacheBytes: cacheBytes})
	if err != nil {
		return err
	}

	if job == jobHold {
		fmt.Println(childReady)
		time.Sleep(time.Minute) // the parent kills us long before
		return errors.New("nobody killed the holder")
	}

	w, err := db.Writer()
	if err != nil {
		return err
	}

	for n := uint64(0); ; n += perBatch {
		for i := n; i < n+perBatch; i++ {
			if err := w.Put(keyOf(i), valueOf(i)); err != nil {
				return err
			}
		}

		if err := w.Commit(); err != nil {
			return err
		}

		if n+perBatch == syncedKeys {
			if err := db.Sync(ctx); err != nil {
				return err
			}
			fmt.Println(childReady)
		}
	}
}

// startChild runs job on dir in another process and returns when it is ready.
// The returned function kills it, as kill -9 does.
func (s suite) startChild(t *testing.T, job, dir string) (child *os.Process, kill func()) {
	t.Helper()
	cmd := conformance.Child(s.test, childJob+"="+job, childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kill = func() {
		if cmd.ProcessState != nil {
			return
		}

		must(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
	}

	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || strings.TrimSpace(line) != childReady {
		t.Fatalf("the child said %q, %v", line, err)
	}

	return cmd.Process, kill
}

// testSurvivesKill kills a writer and checks that all it synced is there, and
// of what it committed later, whole batches in order.
func (s suite) testSurvivesKill(t *testing.T) {
	dir := newDir(t)
	_, kill := s.startChild(t, jobWrite, dir)
	time.Sleep(20 * time.Millisecond) // let it write on
	kill()

	db := s.open(t, engine.Options{Dir: dir})
	defer func() { must(t, db.Close()) }()
	r := reader(t, db)
	for i := range uint64(syncedKeys) {
		expect(t, r, keyOf(i), valueOf(i))
	}

	present := func(i uint64) bool {
		_, found, err := r.Get(keyOf(i), nil)
		must(t, err)
		return found
	}

	n := uint64(syncedKeys)
	for present(n) {
		for i := n; i < n+perBatch; i++ {
			expect(t, r, keyOf(i), valueOf(i)) // a batch is whole
		}
		n += perBatch
	}

	for i := n; i < n+100*perBatch; i++ {
		if present(i) {
			t.Fatalf("entry %d survived, but not the earlier %d", i, n)
		}
	}

	t.Logf("%d entries survived beyond the %d synced", n-syncedKeys, syncedKeys)
}

func (s suite) testNotADatabase(t *testing.T) {
	for _, o := range []engine.Options{{}, {ReadOnly: true}, {Foreign: true}} {
		conformance.RefusesForeignFolders(t, conformance.NotADatabase,
			func(dir string) (conformance.Opened, error) {
				o.Dir = dir

				return s.engine.Open(t.Context(), o)
			})
	}
}

func (s suite) testCreateNeedsAnEmptyDirectory(t *testing.T) {
	conformance.RefusesToOverwrite(t, s.loaded(t, 100),
		func(dir string) (conformance.Opened, error) {
			return s.engine.Open(t.Context(), engine.Options{Dir: dir, Create: true})
		})
}

func (s suite) testEffective(t *testing.T) {
	db := s.open(t, engine.Options{Dir: newDir(t), Create: true, CacheBytes: 3 << 20, Handles: 500})
	defer func() { must(t, db.Close()) }()
	e := db.Effective()
	cache, handles := "3145728", "500"
	if s.info.Has(engine.HasNoCache) {
		cache = "0"
	}

	if s.info.Has(engine.HasNoHandles) {
		handles = "0"
	}

	if shown := strconv.FormatInt(db.CacheBytes(), 10); shown != e["cache_bytes"] {
		t.Errorf("CacheBytes is %s, the effective cache_bytes %s", shown, e["cache_bytes"])
	}

	if e["cache_bytes"] != cache || e["handles"] != handles {
		t.Errorf("cache_bytes %q, handles %q: want %s and %s", e["cache_bytes"], e["handles"],
			cache, handles)
	}
}

func (s suite) testShape(t *testing.T) {
	const n = blockKeys
	db := s.open(t, engine.Options{Dir: s.loaded(t, n)})
	defer func() { must(t, db.Close()) }()
	shape, err := db.Shape()
	must(t, err)
	if minimum := int64(n * (32 + 100)); shape.Bytes < minimum || shape.Files == 0 {
		t.Errorf("%d bytes in %d files, want at least %d bytes", shape.Bytes, shape.Files, minimum)
	}

	if len(shape.Levels) == 0 {
		return
	}

	var files int
	var bytes, keys int64
	var off int64 // what an estimate may miss
	for _, l := range shape.Levels {
		files, bytes, keys = files+l.Files, bytes+l.Bytes, keys+l.Keys
		if l.KeysEstimated {
			off = n / 50
		}
	}

	if files != shape.Files || bytes != shape.Bytes || keys < n-off || keys > n+off {
		t.Errorf("levels add up to %d files, %d bytes and %d keys; want %d, %d and %d (+-%d)",
			files, bytes, keys, shape.Files, shape.Bytes, n, off)
	}
}

// CopyOpen copies the folder of a database that is open, as a kill would leave it, and returns the
// copy. An engine deletes files that it no longer needs in the background: a copy that misses one
// of the files it has listed is no state of the database, and is made again.
func CopyOpen(t testing.TB, dir string) (killed string) {
	t.Helper()
	for {
		killed = filepath.Join(t.TempDir(), "killed")
		err := os.CopyFS(killed, os.DirFS(dir))
		if err == nil {
			return killed
		}

		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
