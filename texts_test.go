package statelab_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// foreignTexts is the one file that recognises texts of errors: those of other programs.
const foreignTexts = "internal/base/failure/foreign.go"

// foreignTextsRust is its twin for libraries that only Rust links.
const foreignTextsRust = "native/rust/nomt/src/error_text.rs"

var rustSearch = regexp.MustCompile(
	`\b(words|why|err|error|e)(\.to_string\(\))?\.(contains|starts_with|ends_with)\(`,
)

// TestNoTextOfAnErrorDecides: what an error means is its code, so that every text can be
// reworded. The texts are results of Error(), the stored field Error, and variables,
// results and parameters of functions that hold one of those. A decision is a search in one, or a
// comparison with anything but the empty text. Assertions of tests may do both.
func TestNoTextOfAnErrorDecides(t *testing.T) {
	folders := map[string][]*ast.File{}
	fset := token.NewFileSet()
	for _, path := range tracked(t) {
		if filepath.Ext(path) == ".rs" && !strings.Contains(path, "/tests/") &&
			path != foreignTextsRust {
			text, err := os.ReadFile(path)
			if err == nil && rustSearch.Match(text) {
				t.Errorf("%s: the text of an error decides: %s is the place", path,
					foreignTextsRust)
			}
		}

		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			path == foreignTexts {
			continue
		}

		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}

		folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], file)
	}

	for _, found := range decisions(folders) {
		t.Errorf("%s: the text of an error decides: give the error a code (engine.Failure)",
			fset.Position(found))
	}
}

// TestTextsThatDecideAreFound, so that the test above can fail.
func TestTextsThatDecideAreFound(t *testing.T) {
	const source = `package p
func a(err error) bool { return strings.Contains(err.Error(), "full") }
func b(err error) bool { text := strings.ToLower(err.Error()); return text == "full" }
func c(err error) bool { return says(err.Error()) }
func says(text string) bool { switch { case strings.HasPrefix(text, "full"): ` +
		`return true }; return false }
func d(run Run) bool { return pattern.MatchString(run.Error) }
func e(err error) int { switch err.Error() { case "full": return 1 }; return 0 }
func f(err error) bool { return fmt.Sprint(err) == "full" }
func g(err error) string { if text := err.Error(); text != "" { ` +
		`return "load: " + text }; return "" }
func h(t *testing.T, err error) { if strings.Contains(err.Error(), "full") { t.Error(err) } }
func i(t *testing.T, err error) { if strings.Contains(err.Error(), "full") { t.Skip(err) } }
func j(err error) bool { return strings.Contains(word(err), "full") }
func word(err error) string { return err.Error() }
func k(err error) bool { return q.Says(err.Error()) }
`

	fset := token.NewFileSet()
	folders := map[string][]*ast.File{}
	for dir, text := range map[string]string{
		"p": strings.Replace(source, "package p", `package p; import "`+module+`/q"`, 1),
		"q": strings.Repeat("\n", 20) +
			`package q; func Says(text string) bool { return text == "full" }`,
	} {
		file, err := parser.ParseFile(fset, dir+".go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		folders[dir] = []*ast.File{file}
	}

	var lines []int
	for _, found := range decisions(folders) {
		lines = append(lines, fset.Position(found).Line)
	}

	slices.Sort(lines)
	if want := []int{2, 3, 5, 6, 7, 8, 11, 12, 21}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
}

// searches are functions and methods that tell something of a text.
var searches = regexp.MustCompile(`^(Contains.*|HasPrefix|HasSuffix|EqualFold|Cut|CutPrefix|` +
	`CutSuffix|Index.*|LastIndex.*|TrimPrefix|TrimSuffix|Match.*|Find.*|Count)$`)

// passes are functions whose result holds the text that they are given.
var passes = regexp.MustCompile(
	`^(ToLower|ToUpper|Trim.*|Fields|Split.*|Lines|Replace.*|Sprint.*|Join|ToValidUTF8|string)$`,
)

// decisions are where the texts of errors decide in the files of folders.
func decisions(folders map[string][]*ast.File) (found []token.Pos) {
	p := texts{
		functions: map[string]*ast.FuncDecl{},
		of:        map[*ast.FuncDecl]map[string]bool{},
		gives:     map[string]bool{},
		dir:       map[*ast.FuncDecl]string{},
		imports:   map[*ast.FuncDecl]map[string]string{},
	}

	for dir, files := range folders {
		for _, file := range files {
			imports := map[string]string{}
			for _, i := range file.Imports {
				if at, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`),
					module+"/"); ours && i.Name == nil {
					imports[filepath.Base(at)] = at
				}
			}

			for _, declared := range file.Decls {
				if f, is := declared.(*ast.FuncDecl); is && f.Body != nil {
					name := f.Name.Name
					if f.Recv != nil {
						name = "." + name
					}

					p.functions[dir+"."+name] = f
					p.of[f], p.dir[f], p.imports[f] = map[string]bool{}, dir, imports
				}
			}
		}
	}

	for p.grown = true; p.grown; {
		p.grown = false
		for f := range p.of {
			p.follow(f)
		}
	}

	for f := range p.of {
		found = append(found, p.decide(f)...)
	}

	return found
}

// texts are what holds the text of an error.
type texts struct {
	functions map[string]*ast.FuncDecl          // by folder and name
	of        map[*ast.FuncDecl]map[string]bool // variables and parameters
	gives     map[string]bool                   // functions that return one
	dir       map[*ast.FuncDecl]string
	imports   map[*ast.FuncDecl]map[string]string // folders by the names of packages
	grown     bool
}

// called is the folder and the name of a function, of this package or of another, or of a
// method of this one.
func (p *texts) called(f *ast.FuncDecl, fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return p.dir[f] + "." + fun.Name
	case *ast.SelectorExpr:
		if of, is := fun.X.(*ast.Ident); is && p.imports[f][of.Name] != "" {
			return p.imports[f][of.Name] + "." + fun.Sel.Name
		}
		return p.dir[f] + ".." + fun.Sel.Name
	}

	return ""
}

func (p *texts) hold(f *ast.FuncDecl, name string) {
	if name != "_" && !p.of[f][name] {
		p.of[f][name], p.grown = true, true
	}
}

// follow finds what a function does with texts but decide.
func (p *texts) follow(f *ast.FuncDecl) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if name, is := left.(*ast.Ident); is && p.is(f, n.Rhs[min(i, len(n.Rhs)-1)]) &&
					(len(n.Lhs) == len(n.Rhs) || i == 0) {
					p.hold(f, name.Name)
				}
			}
		case *ast.RangeStmt:
			if name, is := n.Value.(*ast.Ident); is && p.is(f, n.X) {
				p.hold(f, name.Name)
			}
		case *ast.ReturnStmt:
			name := p.dir[f] + "." + f.Name.Name
			if len(n.Results) > 0 && p.is(f, n.Results[0]) && f.Recv == nil && !p.gives[name] {
				p.gives[name], p.grown = true, true
			}
		case *ast.CallExpr:
			to := p.functions[p.called(f, n.Fun)]
			if to == nil {
				return true
			}

			i := 0
			for _, field := range to.Type.Params.List {
				for _, name := range field.Names {
					if i < len(n.Args) && p.is(f, n.Args[i]) {
						p.hold(to, name.Name)
					}
					i++
				}
			}
		}

		return true
	})
}

// is reports whether an expression holds the text of an error.
func (p *texts) is(f *ast.FuncDecl, e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return p.of[f][e.Name]
	case *ast.ParenExpr:
		return p.is(f, e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (p.is(f, e.X) || p.is(f, e.Y))
	case *ast.IndexExpr:
		return p.is(f, e.X)
	case *ast.SliceExpr:
		return p.is(f, e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name == "Error" // the field of a stored result
	case *ast.CallExpr:
		name, at := "", ast.Expr(nil)
		if p.gives[p.called(f, e.Fun)] {
			return true
		}

		switch fun := e.Fun.(type) {
		case *ast.Ident:
			name = fun.Name
		case *ast.SelectorExpr:
			name, at = fun.Sel.Name, fun.X
		}

		if name == "Error" && len(e.Args) == 0 {
			return true
		}

		return passes.MatchString(name) && slices.ContainsFunc(e.Args, func(arg ast.Expr) bool {
			err, is := arg.(*ast.Ident)
			return p.is(f, arg) || is && err.Name == "err" && strings.HasPrefix(name, "Sprint")
		}) && at != nil || name == "string" && len(e.Args) == 1 && p.is(f, e.Args[0])
	}

	return false
}

// decide are where a function decides by a text.
func (p *texts) decide(f *ast.FuncDecl) (found []token.Pos) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			return !asserts(n.Body)
		case *ast.BinaryExpr:
			if n.Op != token.EQL && n.Op != token.NEQ || empty(n.X) || empty(n.Y) {
				return true
			}
			if p.is(f, n.X) || p.is(f, n.Y) {
				found = append(found, n.Pos())
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && p.is(f, n.Tag) {
				found = append(found, n.Pos())
			}
		case *ast.CallExpr:
			fun, is := n.Fun.(*ast.SelectorExpr)
			if is && searches.MatchString(fun.Sel.Name) &&
				slices.ContainsFunc(n.Args, func(arg ast.Expr) bool { return p.is(f, arg) }) {
				found = append(found, n.Pos())
			}
		}

		return true
	})

	return found
}

// empty is the empty text, nil, or a number.
func empty(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value == `""` || e.Kind == token.INT
	case *ast.Ident:
		return e.Name == "nil"
	}
	return false
}

// asserts reports whether all that a body does is to fail a test.
func asserts(body *ast.BlockStmt) bool {
	if len(body.List) != 1 {
		return false
	}
	call, is := body.List[0].(*ast.ExprStmt)
	return is && strings.HasPrefix(fmt.Sprint(callee(call.X)), "t.") &&
		!strings.HasPrefix(fmt.Sprint(callee(call.X)), "t.Skip")
}

// callee is the name of what an expression calls, such as t.Error.
func callee(e ast.Expr) string {
	call, is := e.(*ast.CallExpr)
	if !is {
		return ""
	}

	fun, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return ""
	}

	of, _ := fun.X.(*ast.Ident)
	return fmt.Sprint(of, ".", fun.Sel.Name)
}
