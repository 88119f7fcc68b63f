package statelab_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/subject"
)

// namers are the packages that may name engines, trees and layouts, and why.
var namers = map[string]string{
	"internal/subject":          "the descriptors",
	"cmd/statelab/subjects.go":  "the table of what the program links",
	"internal/adapt/":           "what adapters share",
	"internal/base/optionsfile": "its table of options is of the libraries that write them",
	"internal/observe/dbformat": "its table of formats is of the engines that write them",
	"internal/explain/kvdblog":  "it reads the logs of one program, which runs one engine",
	"internal/chain/clients":    "programs that own databases; one is any that embeds RocksDB",
}

// words are names that are words, too: they count where they stand alone. Package chain reads
// JSON's null.
var words = map[string]bool{"null": true, "mem": true, "native": true}

// The harness knows no subject by its name: what it needs to know of one is in the descriptor
// (internal/subject) or in the adapter's Info.
func TestTheHarnessKnowsNoNames(t *testing.T) {
	text, err := exec.Command("git", "ls-files", "internal/*.go", "runner/*.go", "result/*.go",
		"cmd/statelab/*.go").Output()
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, name := range subject.Names() {
		if !words[name] {
			names = append(names, regexp.QuoteMeta(name))
		}
	}

	// A name as a word of its own; a file's name such as mdbx.dat is none.
	named := regexp.MustCompile(`(^|[^\w./-])(` + strings.Join(names, "|") +
		`)($|[^\w./-]|[.]($|\W))`)
	for _, path := range strings.Fields(string(text)) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") ||
			mayName(path) {
			continue
		}

		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}

		imports := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if i, is := n.(*ast.ImportSpec); is {
				imports[i.Path] = true
			}

			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING || imports[literal] {
				return true
			}

			value, err := strconv.Unquote(literal.Value)
			if strings.HasPrefix(path, "cmd/") { // where examples of commands name some
				if slices.Contains(subject.Names(), value) {
					t.Errorf("%s: %q is a subject: ask its descriptor or its Info",
						files.Position(literal.Pos()), value)
				}
				return true
			}

			if err == nil &&
				(named.MatchString(value) ||
					words[value] && !strings.HasPrefix(path, "internal/chain/")) {
				t.Errorf("%s: %q names a subject: ask its descriptor or its Info",
					files.Position(literal.Pos()), value)
			}

			return true
		})
	}
}

func mayName(path string) bool {
	for at := range namers {
		if strings.HasPrefix(path, at) {
			return true
		}
	}
	return false
}
