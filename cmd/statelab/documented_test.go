package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var documentedCommand = regexp.MustCompile("(?m)(?:^|[\\s`/])statelab +([a-z]+(?: (?:create|remove|info|import|export|generate|harvest|verify|site|check))?)" +
	"((?: +(?:[^\\s`]+))*)")

// A command line in a document or a help text names a verb and flags that exist.
func TestDocumentedCommandsExist(t *testing.T) {
	a := &app{ctx: context.Background(), stdout: io.Discard, stderr: io.Discard, tables: newTables()}
	root := a.root()
	texts := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../fixtures/*/*.md", "../../examples/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}
	for _, verb := range root.Commands() {
		texts["help of "+verb.Name()] = verb.Long
	}
	checked := 0
	for name, text := range texts {
		text = strings.NewReplacer("\\\n", " ", " | statelab", "\nstatelab").Replace(text)
		for _, found := range documentedCommand.FindAllStringSubmatch(text, -1) {
			verb, _, err := root.Find(strings.Fields(found[1]))
			if err != nil || verb == root {
				continue // prose: "statelab measures ..."
			}
			checked++
			for _, word := range strings.Fields(found[2]) {
				if flag, ok := strings.CutPrefix(word, "--"); ok {
					flag, _, _ = strings.Cut(flag, "=")
					flag = strings.Trim(flag, ".,;:()`*")
					if !knows(verb, flag) {
						t.Errorf("%s: statelab %s has no flag --%s (in %q)", name, verb.Name(), flag, strings.TrimSpace(found[0]))
					}
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d command lines found in documents: the pattern no longer matches", checked)
	}
}

func knows(verb *cobra.Command, flag string) bool {
	return flag == "help" || verb.Flags().Lookup(flag) != nil || verb.InheritedFlags().Lookup(flag) != nil
}
