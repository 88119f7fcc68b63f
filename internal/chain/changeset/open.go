package changeset

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Format is a form that change sets are kept in.
type Format string

const (
	FormatContainer Format = "slcs"       // our own: container.go
	FormatIAVLBench Format = "iavl-bench" // directory of delimited protobuf, a file a version
	FormatCronos    Format = "cronos"     // directory of a directory per store, as memiavl's tools write
	FormatNodes     Format = "nodes"      // NNNNNNNN-MMMMMMMM.pb.gz files
	FormatDiffs     Format = "diffs"      // Ethereum's prestateTracer in diffMode, JSON
	FormatGenerated Format = "generated"  // by a profile and a seed
)

// Formats are those that Open reads.
func Formats() []Format {
	return []Format{FormatContainer, FormatIAVLBench, FormatCronos, FormatNodes, FormatDiffs}
}

// Open opens the set called name, a file or a directory of fsys ("." is fsys
// itself), in a format that "" finds out. Errors name files as fsys does.
func Open(fsys fs.FS, name string, format Format) (Source, error) {
	if format == "" {
		var err error
		if format, err = Detect(fsys, name); err != nil {
			return nil, err
		}
	}
	switch format {
	case FormatContainer:
		return openContainerFile(fsys, name)
	case FormatIAVLBench:
		return openBench(fsys, name)
	case FormatCronos:
		return openCronos(fsys, name)
	case FormatNodes:
		return openNodes(fsys, name)
	case FormatDiffs:
		return openDiffs(fsys, name)
	}
	return nil, fmt.Errorf("format %q: there are %v", format, Formats())
}

func openContainerFile(fsys fs.FS, name string) (Source, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open change set: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	at, ok := f.(io.ReaderAt)
	if !ok || info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s: no file that can be read anywhere", name), f.Close())
	}
	c, err := OpenContainer(at, info.Size(), name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.closer = f
	return c, nil
}

// Detect finds out the format of the set called name.
func Detect(fsys fs.FS, name string) (Format, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", fmt.Errorf("open change set: %w", err)
	}
	if !info.IsDir() {
		return detectFile(fsys, name)
	}
	entries, err := fs.ReadDir(fsys, name)
	if err != nil {
		return "", fmt.Errorf("list %s: %w", name, err)
	}
	holds := func(match func(string) bool) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() && match(e.Name()) })
	}
	switch {
	case holds(func(n string) bool { return n == benchInfoFile }):
		return FormatIAVLBench, nil
	case holds(nodesFile.MatchString):
		return FormatNodes, nil
	case holds(diffFile.MatchString):
		return FormatDiffs, nil
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		files, _, err := blockFiles(fsys, path.Join(name, entry.Name()), cronosFile)
		if err != nil {
			return "", err
		}
		if len(files) > 0 {
			return FormatCronos, nil
		}
	}
	return "", fmt.Errorf("%s: no change set of a known form: neither %s, NUMBER-NUMBER.pb.gz, NUMBER.pb.gz or NUMBER.json files, nor STORE/block-NUMBER",
		name, benchInfoFile)
}

func detectFile(fsys fs.FS, name string) (format Format, err error) {
	switch {
	case strings.HasSuffix(name, ".pb.gz"):
		return FormatNodes, nil
	case diffFile.MatchString(path.Base(name)):
		return FormatDiffs, nil
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", fmt.Errorf("open change set: %w", err)
	}
	defer f.Close() // nothing was written
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(f, start); err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if string(start) != magic {
		return "", fmt.Errorf("%s: no change set of a known form: no container (it does not begin with %s), no .pb.gz, no NUMBER.json", name, magic)
	}
	return FormatContainer, nil
}

// blockFiles are the files of dir whose names match, by the block that the first group
// of match is; unknown are all others.
func blockFiles(fsys fs.FS, dir string, match *regexp.Regexp) (files, unknown []string, err error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list change sets: %w", err)
	}
	byBlock := map[int64]string{}
	for _, entry := range entries {
		file := path.Join(dir, entry.Name())
		parts := match.FindStringSubmatch(entry.Name())
		if parts == nil || entry.IsDir() {
			unknown = append(unknown, file)
			continue
		}
		block, err := blockNumber(parts[1])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		if other, twice := byBlock[block]; twice {
			return nil, nil, fmt.Errorf("%s and %s begin with the same block", other, file)
		}
		byBlock[block] = file
	}
	for _, block := range slices.Sorted(maps.Keys(byBlock)) {
		files = append(files, byBlock[block])
	}
	return files, unknown, nil
}

// blockNumber reads a number, decimal (leading zeros are no sign of base 8) or 0x-hex.
func blockNumber(text string) (int64, error) {
	if digits, is := strings.CutPrefix(text, "0x"); is {
		return strconv.ParseInt(digits, 16, 64)
	}
	return strconv.ParseInt(text, 10, 64)
}
