package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/statelab/statelab/internal/base/materials"
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
		var bill any
		if bill, err = materials.Of(args); err == nil {
			err = a.printJSON(bill)
		}
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
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "statelab " + host.OwnVersion(), Manual: "Statelab", Date: &date}, dir)
}
