package main

import (
	"fmt"
	"os"

	"github.com/statelab/statelab/internal/explain/serve"
)

// serve shows the results below a folder as local pages until the context ends.
func (a *app) serve(m *mistakes, args []string, listen string) error {
	root := "statelab-runs"
	if len(args) == 1 {
		root = args[0]
	} else if len(args) > 1 {
		m.add("name one folder (example: statelab report --serve results)")
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		m.add("%s: no such folder (name the folder that holds your results: statelab report --serve FOLDER)", root)
	}
	if err := m.err(); err != nil {
		return err
	}
	return serve.Serve(a.ctx, root, listen, func(shown string) { fmt.Fprintf(a.stdout, "http://%s/ (stop with Ctrl-C)\n", shown) })
}
