package look

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Conformity is what inspect --as PROFILE says of a database, with --json too: its options beside those of a
// profile, such as a client's.
type Conformity struct {
	Schema  string       `json:"schema"`
	Source  string       `json:"source"`
	Engine  string       `json:"engine"`
	Profile string       `json:"profile"`
	File    string       `json:"file"` // where the options stand
	Options []OptionPair `json:"options"`
}

// OptionPair is an option that matters for reads.
type OptionPair struct {
	Part    string `json:"part"` // column family, or level
	Name    string `json:"name"`
	Here    string `json:"here"`
	Profile string `json:"profile"`
	Differs bool   `json:"differs"`
}

// IsProfile reports whether a name is that of a profile of an engine whose databases name their options.
func IsProfile(name string) bool {
	if name == "" {
		return false
	}
	_, err := rocksoptions.Find(name)
	return err == nil || slices.ContainsFunc(pebbledb.Profiles(), func(p pebbledb.Profile) bool { return p.Name == name })
}

// AsProfile compares the OPTIONS file of a database with a profile; table names the only column family that
// counts, "" those that the profile is about.
func AsProfile(dir string, run *result.Run, profile, table string) (*Conformity, error) {
	file, sections, err := optionsfile.Read(dir)
	if err != nil {
		return nil, err
	}
	if file == "" {
		return nil, engine.Fail(engine.CodeUnsupported, "%s has no OPTIONS file, so its options are not known", dir)
	}
	out := &Conformity{Schema: "statelab.conformity/1", Source: dir, Engine: run.Engine.Name, Profile: profile, File: file, Options: []OptionPair{}}
	if e, _ := subject.EngineOf(run.Engine.Name); e.BlockTables {
		err = out.families(sections, table)
	} else {
		err = out.levels(sections)
	}
	if err == nil && len(out.Options) == 0 {
		err = engine.Fail(engine.CodeUsage, "%s: no column family is one of those of the profile %s: name one with --table", dir, profile)
	}
	return out, err
}

func (out *Conformity) families(sections []optionsfile.Section, table string) error {
	layout, err := rocksoptions.Find(out.Profile)
	if err != nil {
		return engine.Fail(engine.CodeUsage, "--as: %v", err)
	}
	here := map[string]map[string]string{}
	for _, s := range sections {
		if name := unit.Printable(s.Name); s.Kind == "CFOptions" || s.Kind == "TableOptions/BlockBasedTable" {
			if here[name] == nil {
				here[name] = map[string]string{}
			}
			maps.Copy(here[name], s.Values)
		}
	}
	names := slices.Sorted(maps.Keys(here))
	if table != "" && here[table] == nil {
		return engine.Fail(engine.CodeUsage, "--table %s: %s has no such column family (families: %s)", table, out.Source, strings.Join(names, ", "))
	}
	for _, name := range names {
		if table != "" && name != table || table == "" && !layout.Has(name) {
			continue
		}
		for _, option := range rocksoptions.Compare(rocksoptions.InForce(here[name]), rocksoptions.InForce(layout.All(nil))) {
			out.Options = append(out.Options, OptionPair{name, option.Name, option.Here, option.There, option.Differs})
		}
	}
	return nil
}

func (out *Conformity) levels(sections []optionsfile.Section) error {
	s, errs := pebbledb.Resolve(pebbledb.Profiles(), engine.Options{Profile: out.Profile})
	if len(errs) > 0 {
		return engine.Fail(engine.CodeUsage, "--as: %v", errs[0])
	}
	want := s.Written(out.Engine)
	for _, section := range sections {
		part := strings.TrimSpace(section.Kind + " " + section.Name)
		for _, name := range slices.Sorted(maps.Keys(want[part])) {
			here := strings.ToLower(section.Values[name])
			out.Options = append(out.Options, OptionPair{part, name, here, want[part][name], here != want[part][name]})
		}
	}
	return nil
}

// Differences are the options that differ.
func (out *Conformity) Differences() (n int) {
	for _, o := range out.Options {
		if o.Differs {
			n++
		}
	}
	return n
}

// Text prints the options that differ.
func (out *Conformity) Text(w io.Writer) error {
	n := out.Differences()
	if n == 0 {
		_, err := fmt.Fprintf(w, "%s has the options of %s: %s that matter for reads are the same (%s).\n", out.Source, out.Profile,
			unit.Plural(len(out.Options), "option"), out.File)
		return err
	}
	fmt.Fprintf(w, "%s of %d that matter for reads between %s (%s) and the profile %s.\n\n", unit.Plural(n, "difference"), len(out.Options), out.Source,
		out.File, out.Profile)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "of\toption\there\tprofile")
	for _, o := range out.Options {
		if o.Differs {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", o.Part, o.Name, cmp.Or(o.Here, "(not said)"), cmp.Or(o.Profile, "(not said)"))
		}
	}
	return table.Flush()
}
