package main

import (
	"cmp"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var documentedCommand = regexp.MustCompile("(?m)(?:^|[\\s`/(])statelab +" +
	"([a-z]+(?: (?:create|remove|info|import|export|generate|harvest|verify|site|check|build))?)" +
	"((?: +(?:[^\\s`]+))*)")

// A command line in a document or a help text names a verb and flags that exist.
func TestDocumentedCommandsExist(t *testing.T) {
	a := &app{
		ctx:    context.Background(),
		stdout: io.Discard,
		stderr: io.Discard,
		tables: newTables(),
	}

	root := a.root()
	texts := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md",
		"../../fixtures/*/*.md", "../../examples/*/*.md", "../../examples/*/*.service"} {
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
		checked += commandsExist(t, root, name, text, nil)
	}

	if checked < 20 {
		t.Errorf("only %d command lines found in documents: the pattern no longer matches", checked)
	}
}

// commandsExist complains of command lines of text whose flags their verb does not have, or, unless
// prose is nil, whose verb does not exist and is no word of prose. It returns how many there are.
func commandsExist(
	t *testing.T, root *cobra.Command, name, text string, prose []string,
) (checked int) {
	t.Helper()
	text = strings.NewReplacer("\\\n", " ", " | statelab", "\nstatelab").Replace(text)
	for _, found := range documentedCommand.FindAllStringSubmatch(text, -1) {
		verb, rest, err := root.Find(strings.Fields(found[1]))
		if err != nil || verb == root {
			if prose != nil && !slices.Contains(prose, found[1]) {
				t.Errorf("%s: statelab has no command %s (in %q)", name, found[1],
					strings.TrimSpace(found[0]))
			}
			continue // prose: "statelab measures ..."
		}

		if next := strings.Fields(strings.Join(rest, " ") + " " + found[2]); prose != nil &&
			verb.HasSubCommands() && len(next) > 0 &&
			regexp.MustCompile(`^[a-z]+[).]?$`).MatchString(next[0]) &&
			!slices.Contains(prose, strings.Trim(next[0], ").")) {
			t.Errorf("%s: statelab %s has no command %s (in %q)", name, verb.Name(), next[0],
				strings.TrimSpace(found[0]))
		}

		checked++
		for _, word := range strings.Fields(found[2]) {
			if flag, ok := strings.CutPrefix(word, "--"); ok {
				flag, _, _ = strings.Cut(flag, "=")
				flag = strings.Trim(flag, ".,;:()`*")
				if !knows(verb, flag) {
					t.Errorf("%s: statelab %s has no flag --%s (in %q)", name, verb.Name(), flag,
						strings.TrimSpace(found[0]))
				}
			}
		}
	}

	return checked
}

// TestNamedCommandsExist: what the texts of the source name, refusals among them, can be typed:
// each verb exists, and each flag is one of its verb, or at least of some verb.
func TestNamedCommandsExist(t *testing.T) {
	// Words that follow the name of the program where it is no command.
	prose := strings.Fields("did loaded pages chunktrie writes to or of nor needs manifest last " +
		"itself command at makes that")
	// Flags of fio, geth, iavl-bench, Slurm, Docker, sha256sum, ldb, and one that was removed.
	others := strings.Fields("account shared check status rw bs direct stonewall output-format " +
		"log-type requeue exclusive nodelist privileged scope validate backup")
	a := &app{
		ctx:    context.Background(),
		stdout: io.Discard,
		stderr: io.Discard,
		tables: newTables(),
	}

	root := a.root()
	flags := map[string]bool{"help": true, "version": true}
	var gather func(*cobra.Command)
	gather = func(cmd *cobra.Command) {
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		}

		for _, sub := range cmd.Commands() {
			gather(sub)
		}
	}

	gather(root)
	named := regexp.MustCompile(`(?:^|[^-=A-Za-z0-9])--([a-z][a-z-]*)`)
	commands, mentions := 0, 0
	for at, text := range textsOfSource(t) {
		if !strings.Contains(text, " ") {
			continue // an argument, perhaps of another program
		}

		commands += commandsExist(t, root, at,
			strings.NewReplacer(", ", "\n", "; ", "\n", ": ", "\n").Replace(text), prose)
		for _, flag := range named.FindAllStringSubmatch(text, -1) {
			if mentions++; !flags[flag[1]] && !slices.Contains(others, flag[1]) {
				t.Errorf("%s: no command has a flag --%s (in %q)", at, flag[1], text)
			}
		}
	}

	if commands < 100 || mentions < 300 {
		t.Errorf("only %d commands and %d flags are named: they are no longer found", commands,
			mentions)
	}
}

// textsOfSource are the texts in the source of the program and its runners by their place, parts
// that are joined as one.
func textsOfSource(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() &&
			(name == "bin" || name == "testdata" || name == "fixtures" ||
				strings.HasPrefix(name, ".") && name != ".."):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}

		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}

		ast.Inspect(file, func(n ast.Node) bool {
			if e, is := n.(ast.Expr); is {
				if text := textOf(e); text != "" {
					texts[set.Position(e.Pos()).String()] = text
					return false
				}
			}

			return true
		})

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return texts
}

// textOf is a literal, or several that are joined, with %s for what is no literal.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if left, right := textOf(e.X), textOf(e.Y); e.Op == token.ADD && left+right != "" {
			return cmp.Or(left, "%s") + cmp.Or(right, "%s")
		}
	}

	return ""
}

func knows(verb *cobra.Command, flag string) bool {
	return flag == "help" || verb.Flags().Lookup(flag) != nil ||
		verb.InheritedFlags().Lookup(flag) != nil
}
