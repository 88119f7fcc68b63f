package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/result"
)

// A storm draws experiments and faults from a seed. An experiment is killed and
// interrupted again and again, or its disk fails, and resumed each time; then its
// figures, roots and keys are those of an undisturbed one, no point was measured
// twice or lost, no process is left, and nothing else was written.
var (
	stormFor = flag.Duration("storm", 0, "how long the storm lasts (default: one round of "+
		"each kind; make storm: STORM)")
	stormSeed = flag.Uint64("storm-seed", 1,
		"seed of the first round; the next round has the next")
	stormOnly = flag.String("storm-only", "", "only rounds whose verb and disk match this "+
		"regular expression, such as '^(load|replay) tmpfs'")
	stormLedger = flag.String("storm-ledger", "", "file to which each round adds a line of JSON")
)

// stormRound is a line of the ledger.
type stormRound struct {
	Seed     uint64         `json:"seed"`
	Verb     string         `json:"verb"`
	Args     []string       `json:"args"`
	Disk     string         `json:"disk"`
	Starts   int            `json:"starts"`
	Faults   map[string]int `json:"faults"`
	Finished int            `json:"finished_early"` // starts that were over before their fault
	OK       bool           `json:"ok"`
	Seconds  float64        `json:"seconds"`
}

const (
	wholeDisk = "sound"
	fullDisk  = "tmpfs that fills up"
	thinDisk  = "ext4 on a loop device without space behind it" // EIO, then read-only
	// FUSE, in this process: after a number of calls, half of all fail; every fifth read is
	// short; every fiftieth call takes up to 20 ms.
	erringDisk = "FUSE with EIO"
	shortDisk  = "FUSE with short reads"
	slowDisk   = "FUSE that is slow"
	// The disk is sound, and the memory group of all processes too small.
	fullMemory = "a memory group that fills up"
)

// isFUSE says that a disk is a faultyDisk.
func isFUSE(kind string) bool { return kind == erringDisk || kind == shortDisk || kind == slowDisk }

// stormSubject is what a round does.
type stormSubject struct {
	verb string
	args []string // without --db and --out
	// usesDB says that --db names a folder for the files that it makes.
	usesDB bool
	// soundDisk subjects write next to nothing, or are no match for a torn write.
	soundDisk bool
	// db is a database that is copied to the round's disk, to be read there.
	db string
	// torn says that files are written without fsync: after writes that failed they may not open.
	torn bool
	// maps says that files are mapped into memory, which reads past the page cache exclude.
	maps bool
	// truth is what has to come out, whatever happened on the way.
	truth func(t *testing.T, db, out string) string
}

func stormSubjects(t *testing.T) []stormSubject {
	reads := []string{"--rate", "20k", "--gets", "4k", "--warmup", "0", "--access-gets", "0",
		"--disk", "none"}
	readDB := small(t, "20k")
	figures := func(of func(*testing.T, string) string) func(*testing.T, string, string) string {
		return func(t *testing.T, _, out string) string { return of(t, out) }
	}
	roots := func(t *testing.T, out string) (text string) {
		replayed := readReplay(t, out)
		for _, tree := range replayed.Trees {
			f := tree.Figures
			if f.Root == nil && strings.Contains(fmt.Sprint(replayed.Warnings), "root_unknown") {
				return rootUnknown
			} else if f.Root == nil {
				t.Fatalf("%s has no root: %s %s", tree.Tree, tree.Status, tree.Error)
			}

			text += fmt.Sprintln(tree.Tree, f.Root.Combined, f.LastVersion)
		}

		return text
	}

	all := []stormSubject{
		{
			verb:      experiment.Sweep,
			args:      append([]string{"--cache", "512KiB,768KiB,1MiB"}, reads...),
			usesDB:    true,
			soundDisk: true,
			db:        readDB,
			truth:     figures(sweepFigures),
		},
		{
			verb: experiment.Replay,
			args: []string{"--tree", "replaytest", "--changes", changes(t, 40), "--set",
				"CommitMillis=5", "--repeats", "2"},
			usesDB:    true,
			soundDisk: true,
			truth:     figures(roots),
		},
		{
			verb: experiment.Layouts,
			args: []string{"--layout", "flat-pebble,pagetrie,chunktrie", "--accounts", "3k",
				"--reads", "500", "--update-blocks", "2",
				"--memory", "0"},
			usesDB: true,
			maps:   true,
			truth:  figures(steppedLayouts),
		},
	}

	onPath(t, "statelab-run-badger")
	for _, name := range []string{"pebble1", "pebble2", "goleveldb", "bbolt", "badger"} {
		load := []string{"--engine", name, "--keys", "20k"}
		if strings.HasPrefix(name, "pebble") {
			load = append(load, "--set", "MemTableSize=64KiB")
		}

		all = append(all, stormSubject{
			verb:   experiment.Load,
			args:   load,
			usesDB: true,
			maps:   name == "bbolt" || name == "badger",
			truth:  everyKey,
		})
	}

	// Trees that make built: their commits are killed in replays.
	made, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"iavl1", "memiavl", "avlite"} {
		if _, err := os.Stat(filepath.Join(made,
			"statelab-run-"+name)); err == nil && *stormFor > 0 {
			t.Setenv("PATH", made+string(os.PathListSeparator)+os.Getenv("PATH"))
			all = append(all, stormSubject{
				verb:   experiment.Replay,
				args:   []string{"--tree", name, "--changes", changes(t, 300), "--repeats", "2"},
				usesDB: true,
				maps:   true,
				torn:   name != "iavl1",
				truth:  figures(roots),
			})
		}
	}

	return all
}

// everyKey asks a loaded database for more keys than it has.
func everyKey(t *testing.T, db, _ string) string {
	m, err := keyspace.ReadManifest(db)
	if err != nil {
		t.Fatal(err)
	}
	must(t, "sweep", "--db", db, "--gets", "60k", "--warmup", "0", "--access-gets", "0", "--out",
		filepath.Join(t.TempDir(), "R"))
	return fmt.Sprintln(m.Loaded, m.Keys, m.Settled)
}

func TestStorm(t *testing.T) {
	testring.Outer(t, "it kills commands at random")
	subjects := stormSubjects(t)
	undisturbed := map[int]*calm{}
	faults, rounds := map[string]int{}, 0
	only := regexp.MustCompile(*stormOnly)
	for began := time.Now(); ; rounds++ {
		seed := *stormSeed + uint64(rounds)
		random := rand.New(rand.NewPCG(seed, 4))
		i := random.IntN(len(subjects))
		disk := []string{wholeDisk, wholeDisk, wholeDisk, wholeDisk, fullDisk, thinDisk,
			erringDisk, shortDisk, slowDisk, fullMemory}[random.IntN(10)]
		if *stormFor == 0 { // one of each kind
			short := []struct {
				subject int
				disk    string
			}{
				{0, wholeDisk},
				{1, wholeDisk},
				{2, wholeDisk},
				{3, wholeDisk},
				{3, fullDisk},
				{0, shortDisk},
				{4, erringDisk},
				{3, fullMemory},
			}

			if rounds == len(short) {
				break
			}

			i, disk = short[rounds].subject, short[rounds].disk
		} else if time.Since(began) > *stormFor {
			break
		}

		if of := subjects[i]; os.Geteuid() != 0 ||
			of.soundDisk && disk != fullMemory && !(isFUSE(disk) && of.db != "") ||
			of.maps && disk == shortDisk ||
			of.torn && (disk == thinDisk || disk == erringDisk) {
			disk = wholeDisk // only root mounts
		}

		if !only.MatchString(subjects[i].verb + " " + disk) {
			continue
		}

		r := &stormRound{
			Seed:   seed,
			Verb:   subjects[i].verb,
			Args:   subjects[i].args,
			Disk:   disk,
			Faults: map[string]int{},
		}

		if undisturbed[i] == nil {
			undisturbed[i] = subjects[i].calm(t)
		}

		start := time.Now()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			subjects[i].weather(t, random, r, undisturbed[i])
			r.OK = !t.Failed()
		})

		r.Seconds = time.Since(start).Seconds()
		for fault, n := range r.Faults {
			faults[fault] += n
		}

		enter(t, r)
	}

	t.Logf("%d seeds from %d: %v", rounds, *stormSeed, faults)
}

// rootUnknown is what a replay says that was killed between its last commit and the line
// that stores its root.
const rootUnknown = "root unknown"

// calm is what comes of a subject that nobody disturbs.
type calm struct {
	truth string
	took  time.Duration
	bytes int64
}

func (s stormSubject) calm(t *testing.T) *calm {
	dir := t.TempDir()
	s.lay(t, dir)
	o := must(t, s.command(dir, dir)...)
	return &calm{s.truth(t, filepath.Join(dir, "db"), filepath.Join(dir, "out")), o.took,
		bytesBelow(t, dir)}
}

func enter(t *testing.T, r *stormRound) {
	if *stormLedger == "" {
		return
	}

	f, err := os.OpenFile(*stormLedger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	if err := json.NewEncoder(f).Encode(r); err != nil {
		t.Fatal(err)
	}
}

// lay copies the database that is read to the round's disk.
func (s stormSubject) lay(t *testing.T, dbIn string) {
	if s.db != "" {
		copyTree(t, s.db, filepath.Join(dbIn, "db"))
	}
}

// command starts from nothing, or goes on with what is there.
func (s stormSubject) command(dbIn, outIn string) []string {
	db, out := filepath.Join(dbIn, "db"), filepath.Join(outIn, "out")
	if s.verb == experiment.Load {
		if _, err := keyspace.ReadManifest(db); err == nil {
			return []string{s.verb, "--db", db, "--resume", "--ignore-space"}
		}
		return append([]string{s.verb, "--db", db, "--ignore-space"}, s.args...)
	}

	if _, err := os.Stat(filepath.Join(out, experiment.File)); err == nil {
		return []string{s.verb, "--resume", "--out", out, "--ignore-space"}
	}

	args := append([]string{s.verb, "--out", out, "--ignore-space"}, s.args...)
	if s.usesDB {
		args = append(args, "--db", db)
	}

	return args
}

// weather is one round.
func (s stormSubject) weather(t *testing.T, random *rand.Rand, r *stormRound, undisturbed *calm) {
	home := t.TempDir()
	dbIn, outIn := filepath.Join(home, "disk"), filepath.Join(home, "mine")
	for _, dir := range []string{dbIn, outIn, filepath.Join(home, "others"),
		filepath.Join(home, "behind")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	write(t, filepath.Join(home, "others", "letter.txt"), "dear reader")
	d := stormDisk{t: t, kind: r.Disk, at: dbIn, backing: filepath.Join(home, "behind")}
	if isFUSE(r.Disk) {
		s.lay(t, d.backing)
	} else {
		s.lay(t, dbIn)
	}

	d.mount(random, undisturbed.bytes)
	if r.Disk != wholeDisk {
		// The results are on the failing disk, too, of every second round.
		if random.IntN(2) == 0 {
			outIn = dbIn
		}

		run := s.start(t, home, dbIn, outIn, r)
		if d.memory != nil {
			if err := d.memory.enter(run.command.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}

		o := run.wait()
		noOrphan(t, filepath.Join(home, "work"))
		r.Faults[r.Disk]++
		switch {
		case o.exit == exitDone && r.Disk != thinDisk:
			r.Finished++
		case r.Disk == shortDisk || r.Disk == slowDisk:
			t.Errorf("a disk that is not at fault: %v", o)
		case o.exit == exitFailed && !strings.Contains(o.stderr, "--resume") &&
			!strings.Contains(o.stderr, "statelab "+s.verb):
			t.Errorf("a failed disk without a way out: %v", o)
		case o.exit != exitDone && o.exit != exitFailed && !(d.memory != nil && o.exit < 0):
			// the kernel chooses whom it kills
			t.Errorf("a failed disk: %v", o)
		}

		d.repair()
	}

	finished := map[string]time.Time{}
	for range 1 + random.IntN(12) {
		if s.interrupted(t, random, r, home, dbIn, outIn, undisturbed.took) {
			break // it was over before
		}
		s.keeps(t, filepath.Join(outIn, "out"), finished)
	}

	o := s.once(t, home, dbIn, outIn, r)
	if o.exit != exitDone &&
		!(s.verb == experiment.Load && strings.Contains(o.stderr, "complete database")) {
		t.Fatalf("the last start: %v", o)
	}

	s.keeps(t, filepath.Join(outIn, "out"), finished)
	got := s.truth(t, filepath.Join(dbIn, "db"), filepath.Join(outIn, "out"))
	if diff := cmp.Diff(undisturbed.truth, got); diff != "" && got != rootUnknown {
		t.Errorf("not as undisturbed: %s", diff)
	}

	for path, holds := range map[string][]string{
		home:                          {"behind", "disk", "mine", "others", "tmp", "work"},
		filepath.Join(home, "others"): {"letter.txt"},
		dbIn:                          {"db", "out", "lost+found"},
		outIn:                         {"out", "db", "lost+found"},
		filepath.Join(home, "work"):   nil,
	} {
		for _, e := range entriesOf(t, path) {
			if !slices.Contains(holds, e) {
				t.Errorf("%s was written", filepath.Join(path, e))
			}
		}
	}
}

// interrupted starts the subject and disturbs it at a random moment; over says that it
// ended well before.
func (s stormSubject) interrupted(
	t *testing.T, random *rand.Rand, r *stormRound, home, dbIn, outIn string,
	undisturbed time.Duration,
) (over bool) {
	run := s.start(t, home, dbIn, outIn, r)
	// more often early: what is resumed is shorter
	wait := time.Duration(random.Float64() * random.Float64() * float64(undisturbed))
	fate := []string{"kill statelab", "kill statelab", "kill statelab", "kill its runner",
		"kill its runner", "kill its runner",
		"SIGTERM", "SIGINT", "SIGHUP", "pause"}[random.IntN(10)]
	for began := time.Now(); time.Since(began) < wait && !processGone(run); {
		time.Sleep(time.Millisecond)
	}

	if processGone(run) {
		r.Finished++
	} else {
		r.Faults[fate]++
	}

	runner := run.runner()
	switch fate {
	case "kill statelab":
		run.signal(syscall.SIGKILL)
	case "kill its runner":
		if runner != 0 {
			if err := syscall.Kill(runner, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
	case "SIGTERM":
		run.signal(syscall.SIGTERM)
	case "SIGINT":
		run.signal(syscall.SIGINT)
	case "SIGHUP":
		run.signal(syscall.SIGHUP)
	case "pause": // a clock that jumps, to all that is measured
		for _, pid := range []int{run.command.Process.Pid, runner} {
			if pid == 0 {
				continue
			}

			if err := syscall.Kill(pid, syscall.SIGSTOP); err == nil {
				time.Sleep(100 * time.Millisecond)
				err = syscall.Kill(pid, syscall.SIGCONT)
				if err != nil && err != syscall.ESRCH {
					t.Fatal(err)
				}
			}
		}
	}

	o := run.wait()
	noOrphan(t, filepath.Join(home, "work"))
	if strings.Contains(o.stderr, "goroutine ") ||
		o.exit == exitUsage && !strings.Contains(o.stderr, ": signal: killed") {
		t.Errorf("after %s: %v", fate, o)
	}

	return o.exit == exitDone
}

func (s stormSubject) start(t *testing.T, home, dbIn, outIn string, r *stormRound) *session {
	t.Helper()
	for _, dir := range []string{"work", "tmp"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	r.Starts++
	return startIn(t, filepath.Join(home, "work"),
		[]string{"TMPDIR=" + filepath.Join(home, "tmp")}, s.command(dbIn, outIn)...)
}

func (s stormSubject) once(t *testing.T, home, dbIn, outIn string, r *stormRound) outcome {
	t.Helper()
	o := s.start(t, home, dbIn, outIn, r).wait()
	noOrphan(t, filepath.Join(home, "work"))
	return o
}

// noOrphan waits until no process is left that was started in dir.
func noOrphan(t *testing.T, dir string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		left := ""
		links, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			t.Fatal(err)
		}

		for _, link := range links {
			if at, err := os.Readlink(link); err == nil && at == dir {
				left = link
			}
		}

		if left == "" {
			return
		}

		if time.Since(began) > time.Minute {
			t.Fatalf("%s is left behind", left)
		}
	}
}

// keeps expects that points which were finished are still there, and not measured
// again, and notes those that are finished now.
func (s stormSubject) keeps(t *testing.T, out string, finished map[string]time.Time) {
	t.Helper()
	now := map[string]time.Time{}
	folders, err := filepath.Glob(filepath.Join(out, result.PointsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}

	for _, dir := range folders {
		for _, last := range []string{"", "lookup"} {
			dir := filepath.Join(dir, last)
			if run, err := result.ReadRun(dir); err == nil && run.Status == result.OK {
				now[dir] = run.Started
			}
		}
	}

	for dir, started := range finished {
		if !now[dir].Equal(started) {
			t.Errorf("%s was finished, and is lost or measured again (%v, %v)", dir, started,
				now[dir])
		}
	}

	for dir, started := range now {
		finished[dir] = started
	}
}

// stormDisk is where the round's databases are.
type stormDisk struct {
	t        *testing.T
	kind, at string
	backing  string
	faulty   *faultyDisk
	memory   *memoryGroup
}

// mount makes the disk that a subject which writes so many bytes undisturbed meets.
func (d *stormDisk) mount(random *rand.Rand, bytes int64) {
	d.t.Helper()
	switch {
	case d.kind == wholeDisk:
		return
	case d.kind == fullMemory:
		if d.memory = newMemoryGroup(d.t, 16<<20+random.Int64N(128<<20)); d.memory == nil {
			d.t.Skip("this machine does not let groups of memory be made")
		}
		return
	case isFUSE(d.kind):
		var err error
		if d.faulty, err = mountFaulty(d.backing, d.at, d.kind, random,
			random.Int64N(max(64, bytes/4096))); err != nil {
			d.t.Skipf("this machine does not let root mount FUSE: %v", err)
		}

		d.t.Cleanup(func() {
			if err := d.faulty.server.Unmount(); err != nil {
				d.t.Error(err)
			}
		})

		return
	}

	bytes = bytes * int64(2+random.IntN(88)) / 100
	on := d.at
	if d.kind == thinDisk {
		on, bytes = d.backing, bytes+2<<20 // the file system's own
	}

	if err := syscall.Mount("tmpfs", on, "tmpfs", 0,
		fmt.Sprintf("size=%d", max(bytes, 64<<10))); err != nil {
		d.t.Skipf("this machine does not let root mount a small disk: %v", err)
	}

	d.t.Cleanup(func() { d.tool("umount", on) })
	if d.kind == fullDisk {
		return
	}

	image := filepath.Join(d.backing, "image")
	write(d.t, image, "")
	truncate(d.t, image, 2<<30)
	d.tool("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", "-J", "size=4", image)
	d.tool("mount", "-o", "loop", image, d.at)
	d.t.Cleanup(func() { d.tool("umount", d.at) })
}

// repair makes space. A file system that met errors is taken down and checked, as after
// a restart of the machine.
func (d *stormDisk) repair() {
	d.t.Helper()
	switch {
	case d.memory != nil:
		d.memory.lift(d.t)
		return
	case d.faulty != nil:
		if err := d.faulty.repair(d.at); err != nil {
			d.t.Fatal(err)
		}
		return
	case d.kind == fullDisk:
		d.tool("mount", "-o", "remount,size=1g", d.at)
		return
	}

	d.tool("mount", "-o", "remount,size=2g", d.backing)
	d.tool("umount", d.at)
	image := filepath.Join(d.backing, "image")
	// it exits 1 when it has repaired
	if text, err := exec.Command("fsck.ext4", "-fy", image).CombinedOutput(); err != nil {
		if exit, is := err.(*exec.ExitError); !is || exit.ExitCode() > 2 {
			d.t.Fatalf("fsck: %v\n%s", err, text)
		}
	}

	d.tool("mount", "-o", "loop", image, d.at)
}

func (d *stormDisk) tool(name string, args ...string) {
	d.t.Helper()
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %v: %v\n%s", name, args, err, text)
	}
}

func bytesBelow(t *testing.T, dir string) (bytes int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return bytes
}

func entriesOf(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
