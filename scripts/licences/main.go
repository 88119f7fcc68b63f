// Command licences prints the licences of everything that programs and libraries contain, each text
// once, below the components that it belongs to.
//
//	licences FILE...
//
// A Go program names its own modules. A library in Rust is one of native/rust's, and contains what
// Cargo.lock says. librocksdb.so contains RocksDB and the compressors below. Texts come from the
// packages themselves, which go and cargo fetch where they are not cached. A component without a
// text is listed with the licence that its package declares, or as one that declares none.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// rocksdb are crates that carry the sources, and so the licences, of what librocksdb.so contains.
const rocksdb = `
[package]
name = "licences"
version = "0.0.0"
edition = "2021"
[lib]
path = "none.rs"
[dependencies]
librocksdb-sys = "=0.17.3"
`

// ours are modules and crates of this repository.
const ours = "github.com/statelab/"

var textNames = regexp.MustCompile(
	`(?i)^(li[cs]en[cs]e|copying|notice|patents|copyright)([^a-z]|$)`)

// A component is a module, a crate or a standard library, in the folder of its sources.
type component struct {
	name, folder string
	declared     string // the licence by its SPDX name, if the package declares one
}

func main() {
	all, err := components(os.Args[1:])
	if err == nil {
		err = write(all)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// components are what the files contain, by their names.
func components(files []string) ([]component, error) {
	modules := map[string]string{}
	var all []component
	var rust, rocks bool
	for _, file := range files {
		info, err := buildinfo.ReadFile(file)
		switch {
		case err == nil:
			for _, m := range info.Deps {
				if m.Replace != nil {
					m = m.Replace
				}
				if m.Version != "(devel)" && !strings.HasPrefix(m.Path, ours) {
					modules[m.Path+"@"+m.Version] = m.Sum
				}
			}
		case filepath.Base(file) == "librocksdb.so":
			rocks = true
		case filepath.Ext(file) == ".so":
			rust = true
		default:
			return nil, fmt.Errorf("%s: not a program in Go, and not a library that is known", file)
		}
	}

	if len(modules) > 0 {
		found, err := goModules(modules)
		if err != nil {
			return nil, err
		}
		all = found
	}

	if rust {
		found, err := crates("native/rust/Cargo.toml", "--locked")
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}

	if rocks {
		folder, err := os.MkdirTemp("", "licences")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder) //nolint:errcheck // it is in the system's temporary folder

		manifest := filepath.Join(folder, "Cargo.toml")
		err = cmp.Or(os.WriteFile(manifest, []byte(rocksdb), 0o600),
			os.WriteFile(filepath.Join(folder, "none.rs"), nil, 0o600))
		if err != nil {
			return nil, err
		}

		found, err := crates(manifest)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}

	slices.SortFunc(all, func(a, b component) int {
		return strings.Compare(a.name+a.folder, b.name+b.folder)
	})

	return slices.Compact(all), nil
}

// goModules fetches modules, path@version and the checksum of what was linked, and adds Go's own
// library.
func goModules(modules map[string]string) ([]component, error) {
	args := []string{"mod", "download", "-json"}
	for module := range modules {
		args = append(args, module)
	}

	download := exec.Command("go", args...)
	download.Dir, download.Stderr = os.TempDir(), os.Stderr
	// The programs say the checksums that their modules had.
	download.Env = append(os.Environ(), "GONOSUMDB=*", "GOFLAGS=")
	out, err := download.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}

	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}

	all := []component{{name: "Go " + runtime.Version(), folder: strings.TrimSpace(string(root))}}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var m struct{ Path, Version, Dir, Sum string }
		if err := decoder.Decode(&m); err != nil {
			return nil, fmt.Errorf("go mod download: %w", err)
		}
		if linked := modules[m.Path+"@"+m.Version]; m.Sum != linked {
			return nil, fmt.Errorf("%s %s: %s was linked, %s was fetched",
				m.Path, m.Version, linked, m.Sum)
		}
		all = append(all, component{name: m.Path + " " + m.Version, folder: m.Dir})
	}

	return all, nil
}

// crates are what the libraries of a workspace contain on this kind of machine.
func crates(manifest string, flags ...string) ([]component, error) {
	args := append([]string{"metadata", "--quiet", "--format-version", "1",
		"--filter-platform", "x86_64-unknown-linux-gnu", "--manifest-path", manifest}, flags...)
	metadata := exec.Command("cargo", args...)
	metadata.Stderr = os.Stderr
	out, err := metadata.Output()
	if err != nil {
		return nil, fmt.Errorf("cargo metadata: %w", err)
	}

	var m struct {
		Packages []struct {
			ID, Name, Version, License string
			Manifest                   string `json:"manifest_path"`
		}
		Members []string `json:"workspace_members"`
		Resolve struct {
			Nodes []struct {
				ID   string
				Deps []struct {
					Package string                  `json:"pkg"`
					Kinds   []struct{ Kind string } `json:"dep_kinds"`
				}
			}
		}
	}
	if err := json.Unmarshal(out, &m); err != nil {
		return nil, fmt.Errorf("cargo metadata: %w", err)
	}

	// What only builds or tests need is not in the libraries.
	contained := map[string]bool{}
	needs := map[string][]string{}
	for _, node := range m.Resolve.Nodes {
		for _, d := range node.Deps {
			for _, kind := range d.Kinds {
				if kind.Kind == "" {
					needs[node.ID] = append(needs[node.ID], d.Package)
				}
			}
		}
	}

	for next := slices.Clone(m.Members); len(next) > 0; {
		id := next[0]
		next = next[1:]
		if !contained[id] {
			contained[id] = true
			next = append(next, needs[id]...)
		}
	}

	var all []component
	for _, p := range m.Packages {
		if contained[p.ID] && !slices.Contains(m.Members, p.ID) {
			all = append(all, component{
				name:     p.Name + " " + p.Version + " (Rust)",
				folder:   filepath.Dir(p.Manifest),
				declared: p.License,
			})
		}
	}

	return all, nil
}

// write prints the texts, each below the components that it belongs to.
func write(all []component) error {
	type text struct {
		content string
		of      []string
	}
	var order []*text
	bySum := map[[32]byte]*text{}
	var declared []string
	for _, c := range all {
		found := 0
		err := filepath.WalkDir(c.folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				// Of Go's own folder, only its licence: the others belong to tools.
				nested := path != c.folder && strings.HasPrefix(c.name, "Go ")
				if entry.Name() == "testdata" || nested {
					return fs.SkipDir
				}
				return nil
			}
			extension := filepath.Ext(path)
			if !entry.Type().IsRegular() || !textNames.MatchString(entry.Name()) ||
				slices.Contains([]string{".go", ".rs", ".c", ".h", ".py", ".sh"}, extension) {
				return nil
			}

			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found++
			sum := sha256.Sum256([]byte(strings.Join(strings.Fields(string(content)), " ")))
			t := bySum[sum]
			if t == nil {
				t = &text{content: strings.TrimSpace(string(content))}
				bySum[sum] = t
				order = append(order, t)
			}

			name := c.name
			if inside, _ := filepath.Rel(c.folder, filepath.Dir(path)); inside != "." {
				name += ", " + inside
			}
			if !slices.Contains(t.of, name) {
				t.of = append(t.of, name)
			}
			return nil
		})
		if err != nil {
			return err
		}

		if found == 0 {
			declared = append(declared, c.name+": "+cmp.Or(c.declared, "none"))
		}
	}

	fmt.Println("Licences of what the programs and libraries in this folder contain.")
	for _, t := range order {
		fmt.Printf("\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(t.of, "\n"), t.content)
	}

	if len(declared) > 0 {
		fmt.Printf("\n%s\nPackages without a text of a licence, and the licence that they "+
			"declare\n\n%s\n", strings.Repeat("=", 80), strings.Join(declared, "\n"))
	}

	return nil
}
