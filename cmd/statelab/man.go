package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/statelab/statelab/internal/observe/host"
)

// What scripts/dist asks for: manual pages, and a bill of materials.
const (
	manVerb       = "__man"
	materialsVerb = "__sbom"
)

// distribute answers scripts/dist.
func distribute(verb string, args []string, stdout, stderr io.Writer) int {
	a := &app{ctx: context.Background(), stdout: stdout, stderr: stderr, tables: newTables()}
	var err error
	switch {
	case verb == materialsVerb:
		err = a.materials(args)
	case len(args) == 1:
		err = a.manual(args[0])
	default:
		err = fmt.Errorf("%s: name one folder", verb)
	}
	if err != nil {
		fmt.Fprintln(stderr, "statelab:", err)
		return exitFailed
	}
	return exitDone
}

// manual writes a page for every verb.
func (a *app) manual(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the manual: %w", err)
	}
	date := time.Unix(0, 0).UTC() // the same pages from the same program
	root := a.root()
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "statelab " + host.Version, Manual: "Statelab", Date: &date}, dir)
}

// component is a part of a bill of materials, as CycloneDX 1.6 names its fields.
type component struct {
	Type    string              `json:"type"`
	Name    string              `json:"name"`
	Version string              `json:"version,omitempty"`
	URL     string              `json:"purl,omitempty"`
	Hashes  []map[string]string `json:"hashes,omitempty"`
	Parts   []component         `json:"components,omitempty"`
}

// materials prints a bill of materials: the modules in Go binaries, and files that are not
// Go's by their checksums alone.
func (a *app) materials(files []string) error {
	var all []component
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		c := component{Type: "file", Name: filepath.Base(file), Hashes: []map[string]string{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sha256.Sum256(text))}}}
		if info, err := buildinfo.ReadFile(file); err == nil {
			c.Type = "application"
			c.Parts = append(c.Parts, component{Type: "library", Name: "std", Version: info.GoVersion})
			for _, m := range info.Deps {
				if m.Replace != nil {
					m = m.Replace
				}
				c.Parts = append(c.Parts, component{Type: "library", Name: m.Path, Version: m.Version, URL: "pkg:golang/" + m.Path + "@" + m.Version})
			}
		}
		all = append(all, c)
	}
	return a.printJSON(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": all})
}
