package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// checkTime is how long check may take. Tests that have not ended by then are named, and left to
// make test.
const checkTime = 55 * time.Second

// goldenTests are the tests of the command line that see most changes of it soon.
const goldenTests = "TestGolden|TestEveryVerbHasItsHelp|TestHelp|TestDocumented|" +
	"TestNamedCommands|TestExitCodes"

// check formats, vets and tests what depends on the files that git says are changed: first the
// packages that they are in, then those that import these, and so on.
func check() error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	files, err := changedFiles()
	if err != nil {
		return err
	}

	if len(files) == 0 {
		fmt.Println("check: no file is changed since the last commit")
		return nil
	}

	if err := formatted(files); err != nil {
		return err
	}

	main, nested := byModule(files)
	for _, module := range slices.Sorted(maps.Keys(nested)) {
		if err := c(ctx, module, nested[module]); err != nil {
			return err
		}
	}

	listed, err := listPackages("0")
	if err != nil {
		return err
	}

	changed, inC, documents := packagesOf(main, listed)
	if len(inC) > 0 {
		if err := c(ctx, ".", inC); err != nil {
			return err
		}
	}

	if len(changed) > 0 {
		if err := vet(ctx, ".", changed, "0"); err != nil {
			return err
		}
	}

	order := dependents(listed, changed)
	nearest := slices.Clone(changed)
	if documents || len(main) > 0 {
		nearest = append(nearest, modulePath) // links, names, rules of the whole repository
	}

	// What is nearest is tested first: go test takes packages in the order in which they are built.
	isLater := func(name string) bool { return !slices.Contains(nearest, name) }
	for _, packages := range [][]string{
		slices.DeleteFunc(slices.Clone(nearest), isCommandLine),
		slices.DeleteFunc(slices.Clone(order), func(name string) bool {
			return isCommandLine(name) || !isLater(name)
		}),
	} {
		if err := test(ctx, packages, "-short"); err != nil {
			return err
		}

		if ctx.Err() != nil {
			return nil // what is left has been named
		}
	}

	if slices.Contains(order, commandLine) || documents {
		return test(ctx, []string{commandLine}, "-short", "-run",
			"^("+goldenTests+changedTests(main)+")")
	}

	return nil
}

// commandLine has tests that each start programs: check runs a few of them.
const commandLine = modulePath + "/cmd/statelab"

func isCommandLine(name string) bool { return name == commandLine }

// changedFiles are those that differ from the last commit, and new ones, from the repository's
// root.
func changedFiles() (files []string, err error) {
	for _, args := range [][]string{
		{"diff", "--name-only", "-z", "HEAD"}, {"ls-files", "--others", "--exclude-standard", "-z"},
	} {
		text, err := exec.Command("git", args...).Output()
		if err != nil {
			return nil, fmt.Errorf("git %v: %w", args, err)
		}

		files = append(files,
			strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 })...)
	}

	return files, nil
}

// formatted fails if gofmt would change a file.
func formatted(files []string) error {
	var source []string
	for _, path := range files {
		if _, err := os.Stat(path); err == nil && strings.HasSuffix(path, ".go") {
			source = append(source, path)
		}
	}

	if len(source) == 0 {
		return nil
	}

	root, err := goOutput("env", "GOROOT")
	if err != nil {
		return err
	}

	gofmt := exec.Command(filepath.Join(strings.TrimSpace(root), "bin", "gofmt"),
		append([]string{"-l"}, source...)...)
	gofmt.Stderr = os.Stderr
	text, err := gofmt.Output()
	if err != nil {
		return fmt.Errorf("gofmt: %w", err)
	}

	if len(text) > 0 {
		return fmt.Errorf("not formatted, run gofmt -w: %s",
			strings.Join(strings.Fields(string(text)), " "))
	}

	return nil
}

// byModule parts files into those of the main module and those of others, by folder.
func byModule(files []string) (main []string, nested map[string][]string) {
	nested = map[string][]string{}
	for _, path := range files {
		dir := filepath.Dir(path)
		for dir != "." {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}

		if dir == "." {
			main = append(main, path)
		} else if _, err := os.Stat(filepath.Dir(path)); err == nil &&
			strings.HasSuffix(path, ".go") {
			relative, _ := filepath.Rel(dir, filepath.Dir(path)) // both are relative
			nested[dir] = append(nested[dir], "./"+relative)
		}
	}

	return main, nested
}

// A goPackage is what `go list` tells of a package.
type goPackage struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
}

func listPackages(cgo string) ([]goPackage, error) {
	list := exec.Command(goCommand(), "list", "-e",
		"-json=ImportPath,Dir,Imports,TestImports,XTestImports", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}

	var all []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}

		if err != nil {
			return nil, fmt.Errorf("read what go list says: %w", err)
		}

		all = append(all, p)
	}
}

// packagesOf are the packages that files belong to: to that of their folder, or of the nearest
// folder above that is one (testdata, pages that are embedded). inC are folders of Go files that no
// build without cgo has. documents tells whether a file belongs to no package.
func packagesOf(files []string, listed []goPackage) (changed, inC []string, documents bool) {
	root, _ := os.Getwd()
	at := map[string]string{}
	for _, p := range listed {
		if relative, err := filepath.Rel(root, p.Dir); err == nil {
			at[relative] = p.ImportPath
		}
	}

	for _, path := range files {
		dir := filepath.Dir(path)
		for dir != "." && at[dir] == "" {
			if _, err := os.Stat(dir); err == nil && strings.HasSuffix(path, ".go") &&
				dir == filepath.Dir(path) &&
				!strings.Contains(path, "testdata/") {
				inC = append(inC, "./"+dir)
			}

			dir = filepath.Dir(dir)
		}

		if name := at[dir]; dir != "." && name != "" {
			changed = append(changed, name)
		} else {
			documents = true
		}
	}

	slices.Sort(changed)
	slices.Sort(inC)
	return slices.Compact(changed), slices.Compact(inC), documents
}

// dependents are the changed packages and all whose code or tests import them, directly or not,
// the nearest first.
func dependents(listed []goPackage, changed []string) (order []string) {
	importers := map[string][]string{} // of a package, by packages that others can import in turn
	testers := map[string][]string{}   // by tests alone
	for _, p := range listed {
		for _, name := range p.Imports {
			importers[name] = append(importers[name], p.ImportPath)
		}

		for _, name := range slices.Concat(p.TestImports, p.XTestImports) {
			testers[name] = append(testers[name], p.ImportPath)
		}
	}

	distance := map[string]int{}
	next := slices.Clone(changed)
	for _, name := range changed {
		distance[name] = 0
	}

	tested := map[string]int{} // by their tests alone
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		for _, by := range testers[name] {
			if _, known := tested[by]; !known {
				tested[by] = distance[name] + 1
			}
		}

		for _, by := range importers[name] {
			if _, known := distance[by]; !known {
				distance[by] = distance[name] + 1
				next = append(next, by)
			}
		}
	}

	for name, d := range tested {
		if _, known := distance[name]; !known {
			distance[name] = d
		}
	}

	delete(distance, modulePath)
	return slices.SortedFunc(maps.Keys(distance), func(x, y string) int {
		return cmp.Or(cmp.Compare(distance[x], distance[y]), strings.Compare(x, y))
	})
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// changedTests are the tests in those changed files that test the command line, each behind a bar.
func changedTests(files []string) string {
	var b strings.Builder
	for _, path := range files {
		if filepath.Dir(path) != "cmd/statelab" || !strings.HasSuffix(path, "_test.go") {
			continue
		}

		text, err := os.ReadFile(path)
		if err != nil {
			continue // deleted
		}

		for _, found := range testName.FindAllSubmatch(text, -1) {
			if name := string(found[1]); name != "TestMain" {
				b.WriteString("|" + name + "$")
			}
		}
	}

	return b.String()
}

// c vets and tests packages that need cgo, or are of another module.
func c(ctx context.Context, module string, packages []string) error {
	slices.Sort(packages)
	packages = slices.Compact(packages)
	if err := vet(ctx, module, packages, "1"); err != nil {
		return err
	}
	return testIn(ctx, module, "1", packages, "-short")
}

func vet(ctx context.Context, module string, packages []string, cgo string) error {
	command := exec.CommandContext(ctx, goCommand(),
		append([]string{"-C", module, "vet"}, packages...)...)
	command.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("go vet: %w", err)
	}
	return nil
}

func test(ctx context.Context, packages []string, flags ...string) error {
	return testIn(ctx, ".", "0", packages, flags...)
}

// testIn runs the tests of packages in their order until the time is over.
func testIn(ctx context.Context, module, cgo string, packages []string, flags ...string) error {
	if len(packages) == 0 {
		return nil
	}

	line := slices.Concat([]string{"-C", module, "test", "-json"}, flags, packages)
	command := exec.CommandContext(ctx, goCommand(), line...)
	command.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the tests are to end with it
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	events, err := command.StdoutPipe()
	if err != nil {
		return err
	}

	if err := command.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}

	l := &listener{out: os.Stdout, name: short, packages: map[string]*packageLog{}}
	err = l.follow(events)
	waited := command.Wait()
	if ctx.Err() != nil {
		left := slices.DeleteFunc(slices.Clone(packages), func(name string) bool {
			return slices.Contains(l.ended, name)
		})
		for i := range left {
			left[i] = short(left[i])
		}

		fmt.Printf("check: the minute is over; not tested (make test does): %s\n",
			strings.Join(left, " "))
		err, waited = nil, nil
	}

	if err != nil {
		return err
	}

	if waited != nil || containsFailure(l.records) {
		return errReported
	}

	return nil
}
