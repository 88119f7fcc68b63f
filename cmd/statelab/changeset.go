package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/result"
)

func (a *app) changesetVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "changeset", Short: "Make, convert and check change sets: what each block wrote",
		Long: `A change set lists what each block of a chain wrote, version by version. statelab
replay applies it to state trees. The formats of other tools can be read, too.
Statelab's own (.slcs) is one file with checksums that can be read from any version.

  statelab changeset generate --profile bank,staking --versions 300 --scale 0.01 --out set.slcs
  statelab changeset import DIR --out set.slcs      (iavl-bench, cronos, .pb.gz, Ethereum diffs)
  statelab changeset harvest --tree iavl1 --db application.db --out set.slcs
  statelab changeset info set.slcs
  statelab changeset verify set.slcs
  statelab changeset export set.slcs --format cronos --out DIR`,
	}
	return a.group(cmd, a.changesetInfo(), a.changesetImport(), a.changesetExport(), a.changesetGenerate(), a.changesetHarvest(), a.changesetVerify())
}

// setFlags are the flags that changeset's verbs share, as typed.
type setFlags struct {
	format, from, to, out string
	sort, json            bool
}

func (f *setFlags) formatFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "format", "auto", "format of the set: auto, "+strings.Join(words(changeset.Formats()), ", "))
}

func (f *setFlags) rangeFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "0", "first version; 0: the set's first")
	cmd.Flags().StringVar(&f.to, "to", "0", "last version; 0: the set's last")
}

func (f *setFlags) sortFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.sort, "sort", false, "sort each version by store and key, and keep the last change of each key (order sorted-net)")
}

// openSet opens the set that args name; its errors name the path as typed.
func (m *mistakes) openSet(args []string, format, example string) (set changeset.Source, path string) {
	if len(args) != 1 {
		m.add("name one change set (example: statelab changeset %s)", example)
		return nil, ""
	}
	form := changeset.Format(format)
	if form == "auto" {
		form = ""
	} else {
		parse(m, "format", format, setting.Choice(append([]string{"auto"}, words(changeset.Formats())...)...))
	}
	path = args[0]
	if !m.readable("", path) || m.Typed {
		return nil, path
	}
	set, err := changeset.Open(os.DirFS(filepath.Dir(absolute(path))), filepath.Base(absolute(path)), form)
	if err != nil {
		m.cannotRead("%v", err)
		return nil, path
	}
	return set, path
}

// window is the set within --from and --to, sorted if asked.
func (f *setFlags) window(set changeset.Source, m *mistakes) (changeset.Source, error) {
	from, to := m.version("from", f.from), m.version("to", f.to)
	if to > 0 && to < from {
		m.add("--to %d: must be at least --from (%d)", to, from)
	}
	if err := m.err(); err != nil || set == nil {
		return nil, err
	}
	if from > 0 {
		var err error
		if set, err = changeset.From(set, from); err != nil {
			return nil, err
		}
	}
	if to > 0 {
		set = changeset.Until(set, to)
	}
	if f.sort {
		set = changeset.Net(set)
	}
	return set, nil
}

func (m *mistakes) version(flag, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		m.add("--%s %q: must be a version, or 0 (example: 1000)", flag, text)
	}
	return n
}

// newOut checks --out of a set or a list, which never replaces a file.
func (m *mistakes) newOut(out, example string) string {
	if out == "" {
		m.add("--out is missing: name a new file (example: --out %s)", example)
		return ""
	}
	return m.newFile("--out: ", out, nil)
}

// told shows progress and ends the work when the user does.
func (a *app) told(phase string, info changeset.Info) (changeset.Told, func()) {
	p := a.progress()
	first, total := info.First, uint64(0)
	if info.Last > 0 {
		total = uint64(info.Last - info.First + 1)
	}
	return func(version int64) error {
		if first == 0 {
			first = version
		}
		p.Tell("", result.Event{Phase: phase, Done: uint64(max(version-first+1, 0)), Total: total, Unit: "versions"})
		return context.Cause(a.ctx)
	}, p.Done
}

// writeContainer writes set in statelab's own format.
func (a *app) writeContainer(out string, set changeset.Source, provenance, phase string) error {
	info := set.Info()
	provenance = cmp.Or(provenance, info.Provenance)
	return output.Write(out, nil, func(f *os.File) error {
		w, err := changeset.NewWriter(f, changeset.Header{Order: info.Order, RootRule: info.RootRule, Provenance: provenance})
		if err != nil {
			return err
		}
		if info.Complete { // stores without a change too: they have roots
			for _, name := range info.Stores {
				if _, err := w.Store(name); err != nil {
					return err
				}
			}
		}
		told, done := a.told(phase, info)
		defer done()
		if err := w.Copy(set, told); err != nil {
			return err
		}
		return w.Close()
	})
}

func (a *app) changesetImport() *cobra.Command {
	f := new(setFlags)
	var provenance, roots string
	var strict bool
	cmd := &cobra.Command{Use: "import SET --out FILE", Short: "Convert a set of any format to statelab's own"}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 3 and write nothing if files have names that the format does not know")
	f.formatFlag(cmd)
	f.rangeFlags(cmd)
	f.sortFlag(cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "new file to write, such as set.slcs")
	cmd.Flags().StringVar(&provenance, "provenance", "", "origin of the set, kept in the file (default: what the set says, or its name)")
	cmd.Flags().StringVar(&roots, "roots", "", "run folder of a replay of this set; later replays must find its roots again, in each tree with the same root rule")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		out := m.newOut(f.out, "set.slcs")
		source, path := m.openSet(args, f.format, "import DIR --out set.slcs")
		if source != nil {
			defer source.Close() // nothing was written
		}
		set, err := f.window(source, m)
		if err != nil {
			return err
		}
		if roots != "" {
			set = expectRoots(set, roots, m)
		}
		if err := m.err(); err != nil {
			return err
		}
		if err := a.tellUnknown(source, strict); err != nil {
			return err
		}
		if provenance == "" && set.Info().Provenance == "" {
			provenance = fmt.Sprintf("imported from %s (%s)", filepath.Base(path), set.Info().Format)
		}
		if err := a.writeContainer(out, set, provenance, "import"); err != nil {
			return err
		}
		return a.describeSet(out, f.out)
	})
}

func (a *app) changesetExport() *cobra.Command {
	f := new(setFlags)
	cmd := &cobra.Command{Use: "export SET --format FORM --out DIR", Short: "Convert a set to the format of another tool"}
	f.rangeFlags(cmd)
	f.sortFlag(cmd)
	cmd.Flags().StringVar(&f.format, "format", "", "format to write: "+strings.Join(words(changeset.ExportFormats()), ", "))
	cmd.Flags().StringVar(&f.out, "out", "", "new folder to write")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		parse(m, "format", f.format, setting.Choice(words(changeset.ExportFormats())...))
		out := m.newFolder(f.out, "DIR")
		source, path := m.openSet(args, "auto", "export set.slcs --format cronos --out DIR")
		if source != nil {
			defer source.Close() // nothing was written
		}
		set, err := f.window(source, m)
		if err != nil {
			return err
		}
		if err := a.tellUnknown(source, false); err != nil {
			return err
		}
		versions := int64(0)
		err = output.WriteFolder(out, func(dir string) error {
			told, done := a.told("export", set.Info())
			defer done()
			return changeset.Export(folder(dir), set, changeset.Format(f.format), func(version int64) error {
				versions++
				return told(version)
			})
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s: %s versions of %s in the format of %s\n", f.out, unit.Count(versions), path, f.format)
		return nil
	})
}

// folder is a directory that exports write to.
type folder string

func (f folder) Create(name string) (io.WriteCloser, error) {
	path := filepath.Join(string(f), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.Create(path)
}

func (a *app) changesetGenerate() *cobra.Command {
	f := new(setFlags)
	var profiles, versions, scale, seed, emptyValues string
	var emptyStore bool
	cmd := &cobra.Command{Use: "generate --profile LIST --out FILE", Short: "Generate a set; the same seed gives the same set"}
	var about strings.Builder
	about.WriteString("Profiles:\n")
	for _, p := range changeset.Profiles() {
		fmt.Fprintf(&about, "  %-15s %s\n", p.Name, p.Of)
	}
	cmd.Long = about.String()
	flag := cmd.Flags()
	flag.StringVar(&profiles, "profile", "", "profiles, separated by commas; the set has the stores of all")
	flag.StringVar(&versions, "versions", "300", "number of versions")
	flag.StringVar(&scale, "scale", "0.01", "factor for the profile's keys and changes per version")
	flag.StringVar(&seed, "seed", "1", "seed of all keys, values and random choices")
	flag.BoolVar(&emptyStore, "empty-store", false, "add a store that stays empty")
	flag.StringVar(&emptyValues, "empty-values", "0%", "share of values that are empty")
	flag.StringVar(&f.out, "out", "", "new file to write, such as set.slcs")
	f.sortFlag(cmd)
	return a.checked(cmd, func(m *mistakes, args []string) error {
		m.noArguments(args)
		out := m.newOut(f.out, "set.slcs")
		g := changeset.Generation{Profiles: list(profiles), Versions: int64(parse(m, "versions", versions, setting.Count(0, ""))),
			Scale: parse(m, "scale", scale, setting.Number), Seed: parse(m, "seed", seed, setting.Seed),
			EmptyStore: emptyStore, EmptyValueShare: parse(m, "empty-values", emptyValues, setting.Share)}
		m.All("", g.Check())
		if err := m.err(); err != nil {
			return err
		}
		set, err := changeset.Generate(g)
		if err != nil {
			return err
		}
		if f.sort {
			set = changeset.Net(set)
		}
		if err := a.writeContainer(out, set, "", "generate"); err != nil {
			return err
		}
		return a.describeSet(out, f.out)
	})
}

func (a *app) changesetInfo() *cobra.Command {
	f := new(setFlags)
	cmd := &cobra.Command{Use: "info SET", Short: "Show the header of a set, without reading its changes"}
	f.formatFlag(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		set, path := m.openSet(args, f.format, "info set.slcs")
		if err := m.err(); err != nil {
			return err
		}
		defer set.Close() // nothing was written
		if err := a.tellUnknown(set, false); err != nil {
			return err
		}
		if f.json {
			return a.printJSON(changeset.FactsOf(path, set.Info()))
		}
		return changeset.FactsOf(path, set.Info()).Text(a.stdout)
	})
}

func (a *app) changesetVerify() *cobra.Command {
	f := new(setFlags)
	var strict bool
	cmd := &cobra.Command{Use: "verify SET", Short: "Read a whole set and check checksums, versions, gaps, order and counts",
		Long: `Verify exits 1 if the set is damaged or contradicts its own header. A missing
version is not damage: a replay commits it without changes. With --strict, missing
versions and files whose names the format does not know exit 3.`}
	f.formatFlag(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 3 if versions are missing, or files have names that the format does not know")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		set, path := m.openSet(args, f.format, "verify set.slcs")
		if err := m.err(); err != nil {
			return err
		}
		defer set.Close() // nothing was written
		told, done := a.told("verify", set.Info())
		verdict, damage := changeset.Verify(set, told)
		done()
		if err := context.Cause(a.ctx); err != nil {
			return err
		}
		facts := changeset.FactsOf(path, set.Info()).With(verdict)
		if damage != nil {
			facts.Damage = damage.Error()
		}
		if f.json {
			if err := a.printJSON(facts); err != nil {
				return err
			}
		} else if err := facts.VerdictText(a.stdout); err != nil {
			return err
		}
		if damage != nil {
			return fmt.Errorf("%s: %w", path, damage)
		}
		warnings := changeset.LeftOut(set.Info())
		a.progress().Warn(warnings...)
		if strict && verdict.Missing > 0 {
			warnings = append(warnings, engine.Warning{})
			a.progress().Warn(engine.Warning{Text: unit.Count(verdict.Missing) + " versions are missing"})
		}
		if strict && len(warnings) > 0 {
			return madeFatal(len(warnings))
		}
		return nil
	})
}

// warningsOf are those that a replay of the set inherits.
func warningsOf(info changeset.Info) []engine.Warning {
	warnings := changeset.LeftOut(info)
	if _, base, without := strings.Cut(info.Provenance, withoutBase); without {
		warnings = append(warnings, engine.Warning{Code: "no_base_state",
			Text: "the set lacks the state before version" + base + ": equal roots are equal among these trees, and not the chain's"})
	}
	return warnings
}

// tellUnknown warns of files that are left out.
func (a *app) tellUnknown(set changeset.Source, strict bool) error {
	warnings := changeset.LeftOut(set.Info())
	if a.progress().Warn(warnings...); strict && len(warnings) > 0 {
		return madeFatal(len(warnings))
	}
	return nil
}

// describeSet prints the set that was just written.
func (a *app) describeSet(path, typed string) error {
	m := new(mistakes)
	set, _ := m.openSet([]string{path}, "auto", "")
	if err := m.err(); err != nil {
		return err
	}
	return errors.Join(changeset.FactsOf(typed, set.Info()).Text(a.stdout), set.Close())
}
