package statelab_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// publicPackages are those that programs outside this repository import.
var publicPackages = []string{
	"blockreads", "blockreads/pebble1", "blockreads/pebble2", "engine", "engine/enginetest",
	"engine/simple", "layout", "layout/layouttest", "measure", "result", "result/figure", "runner",
	"tree", "tree/treetest",
}

// suites are the names of a conformance suite that a test outside uses. What else a suite exports
// is for the adapters here.
var suites = map[string][]string{
	"engine/enginetest": {"Run"},
	"layout/layouttest": {"TestLayout", "Expectations", "Head"},
	"tree/treetest":     {"Run"},
}

// apiFile lists their exported names as of the last release: one line for each constant, variable,
// function, type, field and method.
const apiFile = "api.txt"

var updateAPI = flag.Bool("update", false, "rewrite "+apiFile)

// TestAPI: what a program uses of the last release is still there and has the same type. A name
// that is new is no failure: a program cannot use it yet.
func TestAPI(t *testing.T) {
	packages, err := exported(publicPackages)
	if err != nil {
		t.Fatal(err)
	}

	var now []string
	for i, p := range packages {
		now = append(now, apiOf(publicPackages[i], p)...)
	}

	for _, line := range now {
		if strings.Contains(line, "internal/") {
			t.Errorf("a program cannot name this type, which is internal: %s", line)
		}
	}

	if *updateAPI {
		text := strings.Join(now, "\n") + "\n"
		if err := os.WriteFile(apiFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	before, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}

	if broken := incompatible(strings.Split(strings.TrimSpace(string(before)), "\n"), now); len(
		broken) > 0 {
		t.Errorf("programs that use the public packages no longer compile:\n%s\nKeep the old name "+
			"beside the new one. If that cannot be, say under \"Next\" of CHANGELOG.md what "+
			"such a program has to change, and accept it: go test . -run TestAPI -update",
			strings.Join(broken, "\n"))
	}
}

// incompatible are the lines of before that are gone or changed, each with what is there now.
func incompatible(before, now []string) (broken []string) {
	for _, line := range before {
		if slices.Contains(now, line) {
			continue
		}

		name := nameOf(line)
		i := slices.IndexFunc(now, func(other string) bool { return nameOf(other) == name })
		if i < 0 {
			broken = append(broken, "removed: "+line)
		} else {
			broken = append(broken, "changed: "+line, "     to: "+now[i])
		}
	}

	return broken
}

// nameOf is the part of a line of apiFile before the type: package, kind and name.
func nameOf(line string) string {
	name, _, _ := strings.Cut(line, ": ")
	return name
}

// TestIncompatible: what breaks a program is told, and what is new is not.
func TestIncompatible(t *testing.T) {
	before := []string{"a, func F: func(int)", "a, method (T) M: func()", "a, type I: interface{A}"}
	now := []string{"a, func F: func(string)", "a, func G: func()", "a, type I: interface{A, B}"}
	want := []string{
		"changed: a, func F: func(int)", "     to: a, func F: func(string)",
		"removed: a, method (T) M: func()",
		"changed: a, type I: interface{A}", "     to: a, type I: interface{A, B}",
	}
	if got := incompatible(before, now); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// exported type-checks packages of this module from what the compiler tells their importers.
func exported(names []string) (packages []*types.Package, err error) {
	list := exec.Command("go", "list", "-export", "-deps", "-f",
		"{{.ImportPath}}\t{{.Export}}")
	for _, name := range names {
		list.Args = append(list.Args, "./"+name)
	}

	var words bytes.Buffer
	list.Stderr = &words
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, &words)
	}

	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}

	open := func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, errors.New("the compiler exports nothing for package " + path)
		}
		return os.Open(files[path])
	}

	compiled := importer.ForCompiler(token.NewFileSet(), "gc", open)
	for _, name := range names {
		p, err := compiled.Import(module + "/" + name)
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}

	return packages, nil
}

// apiOf lists the exported names of a package.
func apiOf(path string, p *types.Package) (lines []string) {
	add := func(kind, what, is string) {
		lines = append(lines, fmt.Sprintf("%s, %s %s: %s", path, kind, what, is))
	}

	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if used, suite := suites[path]; !object.Exported() ||
			suite && !slices.Contains(used, name) {
			continue
		}

		switch object := object.(type) {
		case *types.Const:
			add("const", name, typeText(p, object.Type())+" = "+object.Val().ExactString())
		case *types.TypeName:
			addType(p, object, add)
		case *types.Func:
			add("func", name, typeText(p, object.Type()))
		default:
			add("var", name, typeText(p, object.Type()))
		}
	}

	return lines
}

// addType adds a type with its exported fields and methods. An interface is one line with the
// names of its methods, too: a type outside does not implement it if it has one more.
func addType(p *types.Package, object *types.TypeName, add func(kind, what, is string)) {
	name := object.Name()
	if object.IsAlias() {
		add("type", name, "= "+typeText(p, types.Unalias(object.Type())))
		return
	}

	switch under := object.Type().Underlying().(type) {
	case *types.Struct:
		add("type", name, "struct")
		for field := range under.Fields() {
			if field.Exported() {
				add("field", name+"."+field.Name(), typeText(p, field.Type()))
			}
		}

	case *types.Interface:
		var methods []string
		for method := range under.Methods() {
			methods = append(methods, method.Name())
			add("method", name+"."+method.Name(), typeText(p, method.Type()))
		}
		add("type", name, "interface{"+strings.Join(methods, ", ")+"}")
		return

	default:
		add("type", name, typeText(p, under))
	}

	byValue := types.NewMethodSet(object.Type())
	for method := range types.NewMethodSet(types.NewPointer(object.Type())).Methods() {
		if !method.Obj().Exported() {
			continue
		}

		receiver := "(*" + name + ")"
		if byValue.Lookup(p, method.Obj().Name()) != nil {
			receiver = "(" + name + ")"
		}
		add("method", receiver+" "+method.Obj().Name(), typeText(p, method.Obj().Type()))
	}
}

// typeText is a type as package p writes it, without the names of parameters, which callers do not
// depend on.
func typeText(p *types.Package, t types.Type) string {
	if f, ok := t.(*types.Signature); ok {
		var typeParams []*types.TypeParam
		for parameter := range f.TypeParams().TypeParams() {
			typeParams = append(typeParams, parameter)
		}
		if typeParams == nil {
			t = types.NewSignatureType(nil, nil, nil, unnamed(f.Params()), unnamed(f.Results()),
				f.Variadic())
		}
	}

	return types.TypeString(t, func(other *types.Package) string {
		if other == p {
			return ""
		}
		return strings.TrimPrefix(other.Path(), module+"/")
	})
}

func unnamed(tuple *types.Tuple) *types.Tuple {
	var variables []*types.Var
	for v := range tuple.Variables() {
		variables = append(variables, types.NewParam(v.Pos(), v.Pkg(), "", v.Type()))
	}
	return types.NewTuple(variables...)
}
