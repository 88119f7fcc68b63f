//go:build linux && amd64

package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result"
)

// rocksGetsOfJava is the command of a program in Java with RocksDB's library of the version that
// Besu 25 has, without the program's arguments.
func rocksGetsOfJava(t *testing.T) []string {
	t.Helper()
	compiler, java := testring.Program(t, "javac"), testring.Program(t, "java")
	testring.Program(t, "mvn")
	testring.Program(t, "unzip")
	dir := t.TempDir()
	jar := filepath.Join(dir, "rocksdbjni.jar")
	for _, args := range [][]string{
		{"../../engines/rocksdb/fetch.sh", jar, "9.7.3"},
		{compiler, "-cp", jar, "-d", dir, "testdata/RocksGets.java"},
	} {
		if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
	}

	return []string{java, "-cp", jar + string(os.PathListSeparator) + dir, "RocksGets"}
}

// TestVerdictNamesTheBottleneckOfAJVM is TestVerdictNamesTheBottleneck for a program in Java, whose
// Gets are those that RocksDB counted, in column families by name.
func TestVerdictNamesTheBottleneckOfAJVM(t *testing.T) {
	watching(t)
	if testing.Short() {
		t.Skip("make watched runs it: it starts eight JVMs")
	}

	program, db := rocksGetsOfJava(t), filepath.Join(t.TempDir(), "db")
	run := func(do string, gets uint64, cacheBytes int64, env ...string) *exec.Cmd {
		command := exec.Command(program[0], append(program[1:], do, db, fmt.Sprint(gets),
			fmt.Sprint(cacheBytes), "7")...)
		command.Env = append(os.Environ(), env...)
		return command
	}

	if text, err := run("write", 0, 1<<20).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	for _, c := range []constraint{
		{name: "small cache", want: advice.SmallCache, cache: 2 << 20},
		{name: "few open files", want: advice.LowOpenFiles, cache: 32 << 20, openFiles: 20},
		{name: "lost filters", want: advice.NoFilters, cache: 1 << 20, unfiltered: true},
		{name: "all in the cache", want: advice.Processor, cache: 32 << 20,
			warmup: 30_000},
		{name: "large database", want: advice.SmallCache, cache: 512 << 10},
	} {
		judgeConstrained(t, c, func(c constraint) *result.Watch {
			const measured = 30_000
			gets := measured + c.warmup
			env := []string{fmt.Sprintf("OPEN_FILES=%d", cmp.Or(c.openFiles, -1))}
			if c.unfiltered {
				env = append(env, "FILTERS=none")
			}

			seen, counts := commandSeen(t, run("read", gets, c.cache, env...), db, gets, c.cache)
			w := &seen.Watch
			if w.Gets != gets || counts["counted"] != int64(gets) ||
				w.Found != uint64(counts["found"]) || w.Lost != (result.WatchLost{}) {
				t.Errorf("%s: %d Gets, %d found, lost %+v; RocksDB counted %v", c.name, w.Gets,
					w.Found, w.Lost, counts)
			}

			families := map[string]bool{}
			for _, k := range w.Keys {
				families[k.Kind] = near(float64(k.Gets), float64(gets)/4, 0.05)
			}

			want := map[string]bool{"column family default": true, `column family \x06`: true,
				`column family \x08`: true, `column family \x09`: true}
			if !maps.Equal(families, want) {
				t.Errorf("%s: Gets by column family: %v", c.name, w.Keys)
			}
			return w
		})
	}
}
