package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEarlierNames: testdata/earlier has all commands and flags of earlier versions, one a line, as
// their help listed them. Each is still there, stands for one that is, or is answered with what to
// do instead.
func TestEarlierNames(t *testing.T) {
	versions, err := filepath.Glob("testdata/earlier/*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no earlier versions: %v", err)
	}

	for _, path := range versions {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}

			root := new(app).root()
			root.InitDefaultVersionFlag()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd("completion", "bash")
			for line := range strings.Lines(string(text)) {
				if args := strings.Fields(line); len(args) > 0 {
					checkEarlierName(t, root, args)
				}
			}
		})
	}
}

func checkEarlierName(t *testing.T, root *cobra.Command, args []string) {
	t.Helper()
	if note := names.RemovedNote(args); note != "" {
		var out, errs bytes.Buffer
		code := run(context.Background(), args, &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), note) || out.Len() > 0 {
			t.Errorf("%q: exit %d: %s%s", args, code, &out, &errs)
		}

		return
	}

	now, _ := names.Current(args)
	var words, flags []string
	for _, arg := range now {
		if flag, is := strings.CutPrefix(arg, "--"); is {
			flags = append(flags, flag)
		} else {
			words = append(words, arg)
		}
	}

	if len(flags) > 0 && flags[0] == "as" { // inspect --as node
		words = words[:1]
	}

	cmd, rest, err := root.Find(words)
	if err != nil || len(rest) > 0 {
		t.Errorf("%q: no command %q, and no answer: %v", args, words, err)
		return
	}

	cmd.InitDefaultHelpFlag()
	for _, flag := range flags {
		if lookup(cmd, flag) == nil {
			t.Errorf("%q: no flag --%s, and no answer", args, flag)
		}
	}
}

// lookup is a flag of a command or of the program; nil: it has none of this name.
func lookup(cmd *cobra.Command, flag string) any {
	if found := cmd.Flags().Lookup(flag); found != nil {
		return found
	}

	if found := cmd.InheritedFlags().Lookup(flag); found != nil {
		return found
	}

	return nil
}
