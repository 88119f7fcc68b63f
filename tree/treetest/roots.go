package treetest

import (
	"bufio"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/statelab/statelab/tree"
)

// Roots that one implementation gave for the stream, by root rule: lines of
// "version store root". Those of rule iavl come from iavl v1.3.6.
//
//go:embed testdata
var golden embed.FS

// writeRoots names a file to write the roots to, in the form of testdata.
const writeRoots = "STATELAB_TREETEST_WRITE_ROOTS"

// goldenRoots are by version (the first is 1) and store; nil where no
// implementation has told them.
func goldenRoots(rule string) ([][][]byte, error) {
	file, err := golden.Open("testdata/" + rule + ".txt")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	roots := make([][][]byte, streamVersions)
	lines := bufio.NewScanner(file)
	n := 0
	for ; lines.Scan(); n++ {
		version, store := n/len(storeNames()), n%len(storeNames())
		text, is := strings.CutPrefix(lines.Text(), fmt.Sprintf("%d %s ", version+1, storeNames()[store]))
		root, err := hex.DecodeString(text)
		if !is || err != nil || version >= streamVersions {
			return nil, fmt.Errorf("roots of rule %s: line %d: %q", rule, n+1, lines.Text())
		}
		roots[version] = append(roots[version], root)
	}
	if want := streamVersions * len(storeNames()); n != want {
		return nil, fmt.Errorf("roots of rule %s: %d lines, want %d", rule, n, want)
	}
	return roots, errors.Join(lines.Err(), file.Close())
}

// testRoots plays the stream in every profile: all must end with the same roots
// as the implementation that told them first.
func (s suite) testRoots(t *testing.T) {
	want, err := goldenRoots(s.info.RootRule)
	must(t, err)
	for _, p := range s.info.Profiles {
		t.Run(p.Name, func(t *testing.T) {
			f := s.open(t, tree.Options{Dir: newDir(t), Create: true, Profile: p.Name})
			var got [][][]byte
			for v, made := range stream() {
				must(t, write(f, made))
				got = append(got, commit(t, f))
				if want != nil && !sameRoots(got[v], want[v]) {
					t.Fatalf("version %d: roots\n%x, want\n%x", v+1, got[v], want[v])
				}
			}
			must(t, stateAt(streamVersions).compare(f))
			expectShape(t, f, streamVersions)
			must(t, f.Close())
			if path := os.Getenv(writeRoots); path != "" {
				must(t, os.WriteFile(path, formatRoots(got), 0o644))
			}
			if want == nil {
				want = got // the next profile's
			}
		})
	}
}

func formatRoots(roots [][][]byte) (text []byte) {
	for v := range roots {
		for store, root := range roots[v] {
			text = fmt.Appendf(text, "%d %s %x\n", v+1, storeNames()[store], root)
		}
	}
	return text
}

// expectShape wants as many leaves as the stream left at version, in trees of
// the height that AVL trees of so many can have.
func expectShape(t *testing.T, f tree.Forest, version int64) {
	t.Helper()
	leaves := stateAt(version).leaves()
	expectLeaves(t, f, leaves...)
	shape, err := f.Shape()
	must(t, err)
	for store, s := range shape {
		low, high := 0, 0
		for ; 1<<low < s.Leaves; low++ {
		}
		for a, b := int64(1), int64(2); b <= s.Leaves; a, b = b, a+b {
			high++
		}
		if s.Leaves == 0 {
			low, high = 0, 0
		}
		if s.Height < low || s.Height > high {
			t.Errorf("%s: height %d with %d leaves, want %d to %d", storeNames()[store], s.Height, s.Leaves, low, high)
		}
	}
}
