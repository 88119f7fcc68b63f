package statelab_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// untidy is what no tracked text file may hold. The patterns are written so that
// they do not match themselves.
var untidy = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"an unfinished note", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)},
	{"a path of somebody's machine",
		regexp.MustCompile(`(^|[\s"'(=:` + "`" + `])/(root|home|work|Users)/`)},
	{"the host of a package registry",
		regexp.MustCompile(`https?://((proxy|sum)\.golang\.org|registry\.|(www\.|files\.)?pypi|` +
			`(static\.|index\.)?crates\.io|[^/\s]*(artifactory|jfrog|nexus))`)},
	{"a program that no package registry has is fetched",
		regexp.MustCompile(`\bgit (clone|fetch|submodule) .*(://|@)[^ ]*/` +
			`|(^|[{, ])git *= *"|git\+(https|ssh):|(curl|wget) [^|]*://|codeload\.` +
			`|\bgh repo [c]lone|install .*-[-]git\b` +
			`|\bgit remote [a]dd .*://|Fetch[C]ontent_|External[P]roject_|^\[submodule `)},
}

// TestFetchingIsSeen: ways to get a program that no package registry has, and ways to get one that
// a registry has.
func TestFetchingIsSeen(t *testing.T) {
	fetched := untidy[len(untidy)-1].pattern
	for _, line := range []string{
		"git cl" + "one https://forge.example/a/b",
		"git cl" + "one --depth 1 git@forge.example:a/b",
		"git sub" + "module add https://forge.example/a/b", "[sub" + `module "a"]`,
		"git remote a" + "dd up https://forge.example/a/b",
		"triedb = { gi" + `t = "https://forge.example/a/b" }`,
		"pip install git" + "+https://forge.example/a/b",
		"cargo install -" + "-git https://forge.example/a/b",
		"cu" + "rl -L https://forge.example/a.tar.gz", "gh repo c" + "lone a/b",
		"Fetch" + "Content_Declare(a)", "External" + "Project_Add(a)",
	} {
		if !fetched.MatchString(line) {
			t.Errorf("%q is not seen", line)
		}
	}

	for _, line := range []string{"git log -1", "cargo build --locked",
		"go run honnef.co/go/tools/cmd/staticcheck", "apt-get install git", "mvn dependency:get"} {
		if found := fetched.FindString(line); found != "" {
			t.Errorf("%q is taken for a fetch: %q", line, found)
		}
	}
}

// ourClone is how a reader gets this repository.
const ourClone = "git clone https://" + module

// The widths of lines. Go ends at 100 columns, comments and raw strings too, so that two files fit
// side by side and a review hides nothing; gofmt breaks no lines. In the other languages lines are
// held to what an editor still shows.
const (
	goColumns      = 100
	tabColumns     = 4   // of a tab in Go
	codeCharacters = 160 // of other code; a tab is one
)

var (
	code     = regexp.MustCompile(`\.(go|rs|c|h|cpp|hpp|sh)$|(^|/)Makefile$|^scripts/|^\.ci/`)
	testdata = regexp.MustCompile(`(^|/)testdata/`)

	// writtenByTool is Go's mark of a generated file.
	writtenByTool = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// tooWide says how a line exceeds the width of its file's language. Only what people write as code
// has one: testdata is there to be read by programs.
func tooWide(path, line string) string {
	switch {
	case !code.MatchString(path) || testdata.MatchString(path):
		return ""
	case filepath.Ext(path) == ".go":
		line = strings.ReplaceAll(line, "\t", strings.Repeat(" ", tabColumns))
		if columns := utf8.RuneCountInString(line); columns > goColumns {
			return fmt.Sprintf("%d columns, more than %d", columns, goColumns)
		}
	default:
		if characters := utf8.RuneCountInString(line); characters > codeCharacters {
			return fmt.Sprintf("%d characters, more than %d", characters, codeCharacters)
		}
	}

	return ""
}

// TestWideLinesAreSeen at the limit and beyond it.
func TestWideLinesAreSeen(t *testing.T) {
	for _, c := range []struct {
		path, line string
		seen       bool
	}{
		{"a.go", strings.Repeat("a", 100), false},
		{"a.go", strings.Repeat("a", 101), true},
		{"a.go", "\t" + strings.Repeat("ä", 96), false},
		{"a.go", "\t// " + strings.Repeat("ä", 94), true},
		{"testdata/a.go", strings.Repeat("a", 200), false},
		{"a.c", "\t" + strings.Repeat("a", 159), false},
		{"a.c", strings.Repeat("a", 161), true},
		{"a.md", strings.Repeat("a", 500), false},
	} {
		if said := tooWide(c.path, c.line); (said != "") != c.seen {
			t.Errorf("%s, %d bytes: %q", c.path, len(c.line), said)
		}
	}
}

func TestTrackedFilesAreTidy(t *testing.T) {
	for _, path := range tracked(t) {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted, not committed yet
		}

		if err != nil {
			t.Fatal(err)
		}

		if len(text) > 2<<20 {
			t.Errorf("%s: %d bytes: built files and data do not belong here", path, len(text))
		}

		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}

		handwritten := !writtenByTool.Match(text)
		for n, line := range strings.Split(string(text), "\n") {
			if said := tooWide(path, line); said != "" && handwritten {
				t.Errorf("%s:%d: %s", path, n+1, said)
			}

			for _, u := range untidy {
				found := u.pattern.FindString(strings.ReplaceAll(line, ourClone, ""))
				if found != "" {
					t.Errorf("%s:%d: %s: %q", path, n+1, u.what, found)
				}
			}
		}

		if filepath.Ext(path) == ".go" {
			if formatted, err := format.Source(text); err != nil {
				t.Errorf("%s: %v", path, err)
			} else if !bytes.Equal(formatted, text) {
				t.Errorf("%s: not formatted", path)
			}
		}
	}
}

// generated is a table that a test writes from the code: it is looked up, not read.
var generated = regexp.MustCompile(`(?s)<!-- figures: begin.*<!-- figures: end -->`)

// TestDocumentsAreShort counts the words of README, docs and examples, of each page and of all, as
// wc does, but for tables that are generated.
func TestDocumentsAreShort(t *testing.T) {
	const (
		maximum     = 40_000
		maximumPage = 1_200
	)
	words := 0
	for _, path := range tracked(t) {
		if filepath.Ext(path) == ".md" &&
			regexp.MustCompile(`^(README\.md$|docs/|examples/)`).MatchString(path) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}

			page := len(strings.Fields(generated.ReplaceAllString(string(text), "")))
			if page > maximumPage {
				t.Errorf("%s has %d words, more than %d: answer one question on a page", path,
					page, maximumPage)
			}
			words += page
		}
	}

	if words > maximum {
		t.Errorf("README, docs and examples have %d words, more than %d: say things once", words,
			maximum)
	}
}

// link is a link in a document: its file and its heading.
var link = regexp.MustCompile(`\]\(([^()\s#]*)(#[^()\s]*)?\)`)

// TestLinksInDocumentsResolve checks that a link leads to a file, and to a heading of it.
func TestLinksInDocumentsResolve(t *testing.T) {
	for _, path := range tracked(t) {
		text, err := os.ReadFile(path)
		if filepath.Ext(path) != ".md" || err != nil {
			continue
		}

		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(found[1], ":") {
				continue // another site
			}

			target := path
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(path), found[1])
			}

			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", path, found[1])
			} else if found[2] != "" && !hasHeading(t, target, found[2]) {
				t.Errorf("%s: %s has no heading %s", path, target, found[2])
			}
		}
	}
}

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// hasHeading tells whether a document has the heading of an anchor, written as GitHub writes
// anchors.
func hasHeading(t *testing.T, document, anchor string) bool {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(text)) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			if "#"+strings.ReplaceAll(name, " ", "-") == anchor {
				return true
			}
		}
	}

	return false
}

func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	for name, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", name)
		}
	}
}

// TestCommentsBelongToWhatFollows: code that is moved or put between a comment and its declaration
// leaves the comment at the wrong one. It then begins with the name of another declaration of its
// file, which has none, or has two comments that begin with names. No linter compares names
// across declarations.
func TestCommentsBelongToWhatFollows(t *testing.T) {
	type declared struct {
		path, name string
		doc        []string // lines
	}

	folders := map[string][]declared{}
	for _, path := range tracked(t) {
		text, err := os.ReadFile(path)
		if filepath.Ext(path) != ".go" || os.IsNotExist(err) {
			continue
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}

		add := func(name string, doc *ast.CommentGroup) {
			folder := filepath.Dir(path)
			folders[folder] = append(folders[folder], declared{path, name,
				strings.Split(doc.Text(), "\n")})
		}

		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(d.Name.Name, d.Doc)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, is := s.(*ast.TypeSpec); is {
						add(s.Name.Name, cmp.Or(s.Doc, d.Doc))
					}
				}
			}
		}
	}

	for _, all := range folders {
		type place struct{ path, name string }
		bare := map[place]bool{} // names without a comment
		for _, d := range all {
			if d.doc[0] == "" {
				bare[place{d.path, d.name}] = true
			}
		}

		for _, d := range all {
			for n, line := range d.doc {
				first, _, _ := strings.Cut(line, " ")
				if first = strings.TrimRight(first, ":,"); first != d.name &&
					bare[place{d.path, first}] && (n == 0 || isName(first)) {
					t.Errorf("%s: the comment of %s begins a line with %s, which has no comment",
						d.path, d.name, first)
				}
			}
		}
	}
}

// isName tells an identifier of several words from a word of a sentence.
func isName(word string) bool {
	return word != "" && strings.ContainsFunc(word[1:], unicode.IsUpper)
}

// tracked lists the files of the repository, new ones included that are not added yet.
func tracked(t *testing.T) []string {
	t.Helper()
	text, err := exec.Command("git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard").Output()
	if err != nil {
		t.Skipf("not a git clone: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}
