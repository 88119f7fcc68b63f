// Package versions builds statelab with versions of one Go module, released ones or
// commits of a clone.
//
// Nothing of the user's is changed: go.mod is copied (go build -modfile), and a commit is
// unpacked elsewhere (git archive). Non-goals: measuring, choosing what to build next.
package versions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// own is the module that is built.
const own = "github.com/statelab/statelab"

// Of says which versions.
type Of struct {
	Module    string
	Repo      string // a clone of the module, whose commits are the versions; "": released versions
	Source    string // checkout of statelab
	Good, Bad string
}

// Builder makes binaries.
type Builder struct{ of Of }

// Open lists the versions from Good to Bad, both included.
func Open(ctx context.Context, of Of) (*Builder, []string, error) {
	var err error
	if of.Source, err = filepath.Abs(of.Source); err != nil {
		return nil, nil, err
	}
	b := &Builder{of}
	if _, err := exec.LookPath("go"); err != nil {
		return nil, nil, errors.New("bisect builds statelab: install Go from https://go.dev/dl")
	}
	if is, err := moduleAt(of.Source); err != nil || is != own {
		return nil, nil, fmt.Errorf("--source %s is not a checkout of statelab: git clone https://%s, and name that folder", of.Source, own)
	}
	list, err := b.released(ctx)
	if of.Repo != "" {
		list, err = b.commits(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	return b, list, nil
}

// moduleAt is the module whose root a folder is.
func moduleAt(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`), nil
		}
	}
	return "", fmt.Errorf("%s has no module line", filepath.Join(dir, "go.mod"))
}

func (b *Builder) released(ctx context.Context) ([]string, error) {
	if b.of.Repo != "" {
		return nil, nil
	}
	text, err := b.run(ctx, b.of.Source, "go", "list", "-m", "-versions", "-json", b.of.Module)
	if err != nil {
		return nil, err
	}
	var found struct{ Versions []string }
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("go list -m -versions %s: %w", b.of.Module, err)
	}
	good, bad := slices.Index(found.Versions, b.of.Good), slices.Index(found.Versions, b.of.Bad)
	switch list := strings.Join(found.Versions, ", "); {
	case good < 0:
		return nil, fmt.Errorf("--good %s is not a version of %s (there are: %s)", b.of.Good, b.of.Module, list)
	case bad < 0:
		return nil, fmt.Errorf("--bad %s is not a version of %s (there are: %s)", b.of.Bad, b.of.Module, list)
	case good >= bad:
		return nil, fmt.Errorf("--good %s must come before --bad %s: bisect finds the first version with a change", b.of.Good, b.of.Bad)
	}
	return found.Versions[good : bad+1], nil
}

func (b *Builder) commits(ctx context.Context) ([]string, error) {
	if is, err := moduleAt(b.of.Repo); err != nil || is != b.of.Module {
		return nil, fmt.Errorf("--repo %s is not a clone of %s: its go.mod says %q", b.of.Repo, b.of.Module, is)
	}
	var ends []string
	for _, end := range []struct{ flag, name string }{{"--good", b.of.Good}, {"--bad", b.of.Bad}} {
		text, err := b.run(ctx, b.of.Repo, "git", "rev-parse", "--verify", "--quiet", end.name+"^{commit}")
		if err != nil {
			return nil, fmt.Errorf("%s %s is not a commit of %s", end.flag, end.name, b.of.Repo)
		}
		ends = append(ends, strings.TrimSpace(string(text)))
	}
	text, err := b.run(ctx, b.of.Repo, "git", "rev-list", "--reverse", "--first-parent", "--abbrev-commit", "--abbrev=12", ends[0]+".."+ends[1])
	if err != nil {
		return nil, err
	}
	list := strings.Fields(string(text))
	if _, err := b.run(ctx, b.of.Repo, "git", "merge-base", "--is-ancestor", ends[0], ends[1]); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("--good %s must be an ancestor of --bad %s", b.of.Good, b.of.Bad)
	}
	return append([]string{ends[0][:12]}, list...), nil
}

// FileName is a version as the name of a folder.
func FileName(version string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' {
			return '-'
		}
		return r
	}, version)
}

// Build makes the binary with a version at path, whose folder is its scratch.
func (b *Builder) Build(ctx context.Context, version, path string) error {
	scratch := filepath.Dir(path)
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return err
	}
	source, replace := b.of.Source, b.of.Module+"="+b.of.Module+"@"+version
	if b.of.Repo != "" {
		unpacked := filepath.Join(scratch, version)
		if err := b.unpack(ctx, version, unpacked); err != nil {
			return err
		}
		if replace = b.of.Module + "=" + unpacked; b.of.Module == own {
			source, replace = unpacked, ""
		}
	}
	args := []string{"build", "-o", path}
	if replace != "" {
		edited := filepath.Join(scratch, "statelab.mod")
		for from, to := range map[string]string{"go.mod": edited, "go.sum": strings.TrimSuffix(edited, "mod") + "sum"} {
			text, err := os.ReadFile(filepath.Join(source, from))
			if err != nil {
				return err
			}
			if err := os.WriteFile(to, text, 0o644); err != nil {
				return err
			}
		}
		if _, err := b.run(ctx, source, "go", "mod", "edit", "-replace="+replace, edited); err != nil {
			return err
		}
		args = append(args, "-mod=mod", "-modfile="+edited)
	}
	_, err := b.run(ctx, source, "go", append(args, "./cmd/statelab")...)
	return err
}

// unpack puts the files of a commit into a folder.
func (b *Builder) unpack(ctx context.Context, commit, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := dir + ".tar"
	if _, err := b.run(ctx, b.of.Repo, "git", "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return err
	}
	_, err := b.run(ctx, dir, "tar", "-xf", archive)
	return errors.Join(err, os.Remove(archive))
}

// run carries a command out in a folder. The error is the end of what it said.
func (b *Builder) run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		const last = 300
		said := strings.Join(strings.Fields(errs.String()), " ")
		if len(said) > last {
			said = "... " + said[len(said)-last:]
		}
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, said)
	}
	return out.Bytes(), nil
}
