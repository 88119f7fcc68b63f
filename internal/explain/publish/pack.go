// Package publish makes results travel: it packs a folder of results with a checksum of
// every file, checks such a pack by computing its figures and its page again from the raw
// files, and lays many packs out as a static site that ranks by question.
//
// What a check proves: nothing in the pack changed since it was made, and no figure in it
// contradicts the counters, time series and histograms beside it. It does not prove that
// the measurement took place: whoever makes up raw files that agree passes.
//
// Non-goals: storing (a pack is a file), signing (a signature of the pack's checksum can
// travel beside it).
package publish

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/explain/report"
	"github.com/statelab/statelab/result"
)

// Files of a pack beside those of the results. Sums is what sha256sum -c reads.
const (
	Sums   = "SHA256SUMS"
	MadeBy = "made-by.txt"
)

// published are the files of results that a pack takes: nothing else, and no database.
func published() []string {
	files := []string{"experiment.yaml"}
	for _, k := range kinds.All() {
		files = append(files, k.Packed...)
	}
	return files
}

// mostFiles and mostBytes bound what is taken out of a pack.
const (
	mostFiles = 100_000
	mostBytes = 4 << 30
)

// Pack writes a pack of the results in dir: a zip file with one folder of that name. The
// page is made anew; by is the program that made it. Equal results give equal bytes.
func Pack(w io.Writer, dir, name, by string) error {
	page, err := pageOf(dir)
	if err != nil {
		return err
	}
	paths, err := files(dir)
	if err != nil {
		return err
	}
	out, sums := zip.NewWriter(w), ""
	add := func(path string, text []byte) error {
		sum := sha256.Sum256(text)
		sums += hex.EncodeToString(sum[:]) + "  " + path + "\n"
		return store(out, name+"/"+path, text)
	}
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		if err := add(path, text); err != nil {
			return err
		}
	}
	return errors.Join(add(result.ReportFile, page), add(MadeBy, []byte(by+"\n")), store(out, name+"/"+Sums, []byte(sums)), out.Close())
}

func store(out *zip.Writer, path string, text []byte) error {
	f, err := out.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return err
}

// files are those of the results in dir, by their path with slashes.
func files(dir string) (paths []string, err error) {
	taken := published()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains(taken, d.Name()) {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		paths = append(paths, filepath.ToSlash(rel))
		return err
	})
	return paths, err
}

func pageOf(dir string) ([]byte, error) {
	found, err := report.Open(dir)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = found.Page().Write(&out)
	return out.Bytes(), err
}

// Open makes the results in a pack, or in a folder, readable at dir. remove gives back
// what was unpacked.
func Open(path string) (dir string, remove func() error, err error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return path, func() error { return nil }, err
	}
	in, err := zip.OpenReader(path)
	if err != nil {
		return "", nil, fmt.Errorf("%s is neither a folder of results nor a pack: %w", path, err)
	}
	defer in.Close() // nothing was written
	names, size := map[string]bool{}, uint64(0)
	for _, f := range in.File {
		top, _, _ := strings.Cut(f.Name, "/")
		names[top], size = true, size+min(mostBytes, f.UncompressedSize64)
		if !fs.ValidPath(strings.TrimSuffix(f.Name, "/")) {
			return "", nil, fmt.Errorf("%s is not a pack: the name %q leads out of it", path, f.Name)
		}
		if !f.Mode().IsRegular() && !f.Mode().IsDir() || len(in.File) > mostFiles || size > mostBytes {
			return "", nil, fmt.Errorf("%s is not a pack: %s is not a file, or it holds more than %d files or %d GiB", path, f.Name, mostFiles, mostBytes>>30)
		}
	}
	if len(names) != 1 {
		return "", nil, fmt.Errorf("%s is not a pack: it must hold one folder, and holds %d files and folders", path, len(names))
	}
	into, err := os.MkdirTemp("", "statelab-pack")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(into) }
	// The reader refuses more bytes than it was told.
	if err := os.CopyFS(into, in); err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s is damaged: %w", path, err), remove())
	}
	for top := range names {
		dir = filepath.Join(into, top)
	}
	// A folder may do without checksums. Where a pack has none, its list of files is damaged.
	if _, err := os.Stat(filepath.Join(dir, Sums)); err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s is damaged, or was not made by statelab pack create: it has no %s", path, Sums), remove())
	}
	return dir, remove, nil
}

// sums checks the checksums of a folder that was packed. packed is false of a folder that
// has none.
func sums(dir string) (packed bool, problems []string, err error) {
	f, err := os.Open(filepath.Join(dir, Sums))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	defer f.Close() // nothing was written
	listed := map[string]bool{Sums: true}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sum, path, ok := strings.Cut(lines.Text(), "  ")
		if !ok || !filepath.IsLocal(filepath.FromSlash(path)) {
			return true, append(problems, fmt.Sprintf("%s: damaged line %.80q", Sums, lines.Text())), nil
		}
		listed[path] = true
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			problems = append(problems, path+": listed in "+Sums+" and missing")
			continue
		}
		if is := sha256.Sum256(text); hex.EncodeToString(is[:]) != sum {
			problems = append(problems, path+": its checksum is not the one in "+Sums)
		}
	}
	if err := lines.Err(); err != nil {
		return true, append(problems, fmt.Sprintf("%s: %v", Sums, err)), nil
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if rel = filepath.ToSlash(rel); !listed[rel] {
			problems = append(problems, rel+": not listed in "+Sums)
		}
		return err
	})
	return true, problems, err
}
