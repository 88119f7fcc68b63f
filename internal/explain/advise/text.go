package advise

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
)

const textWidth = 80

// Text prints the advice for a terminal of 80 columns: the answer, what to set,
// what it rests on.
func (a Advice) Text(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps the first error for Flush
	fmt.Fprintln(out, wrap(a.Answer, ""))
	a.places(out)
	a.flags(out)
	a.memory(out)
	a.Node.Text(out)
	a.disk(out)
	a.measured(out)
	fmt.Fprintln(out, "\nWhy")
	for _, r := range a.Reasons {
		fmt.Fprintln(out, wrap("- "+r.Text, "  "))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the advice: %w", err)
	}
	return nil
}

// places are the cache sizes that answer questions.
func (a *Advice) places(out io.Writer) {
	writes, rate := a.Settings[0].MemTables > 0, a.Limits.GetsPerSecond
	const format = "%-24s %10s %11s %9s %9s %12s\n"
	line := func(name, cache, blocks, writing, rest, perSecond string) {
		if !writes {
			blocks, rest = "", ""
		}
		if rate == 0 {
			perSecond = ""
		}
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf(format, name, cache, blocks, writing, rest, perSecond), " \n"))
	}
	if writes || rate > 0 {
		fmt.Fprintln(out)
	}
	if writes {
		line("", "", "", "reads/Get", "reads/Get", "reads/s at")
		line("", "cache", "for blocks", "writing", "at rest", unit.ShortCount(rate)+" Gets/s")
	} else {
		line("", "", "", "", "", "reads/s at")
		line("", "cache", "", "reads/Get", "", unit.ShortCount(rate)+" Gets/s")
	}
	row := func(name string, p Place) {
		rest := ""
		if p.AtRest > 0 {
			rest = perGet(p.AtRest)
		}
		line(name, size(p.CacheBytes), size(p.BlockCacheBytes), perGet(p.BlockReadsPerGet), rest, unit.Count(int64(p.BlockReadsPerGet*rate+0.5)))
	}
	for _, q := range a.questions() {
		row(q.name, q.Place)
	}
	line(a.floorName()+" alone", "", "", perGet(a.Floor), "", "")
	if rules := a.rules(); rules != "" {
		fmt.Fprintln(out, wrap(rules, ""))
	}
	if writes {
		fmt.Fprintln(out, wrap("Writing: memtables take their part of the cache, as in a running node. At rest: they take as little as in a sweep.", ""))
	}
	if source := a.sourceSentence(); source != "" {
		fmt.Fprintln(out, wrap(source, ""))
	}
}

// floorName is what a Get reads once all else is cached. A cache that holds data blocks as
// well saves some of them, but not those that no Get has read before.
func (a *Advice) floorName() string {
	if a.List != nil {
		return "first reads"
	}
	return "data blocks"
}

// rules say what makes a cache the answer to the questions that do not say it themselves.
func (a *Advice) rules() string {
	text := ""
	rule := a.Recommendation.Rule
	if rule != "" {
		text = "Recommended: " + rule + ". "
	}
	if a.Flat == nil {
		return text
	}
	flat := smallestWithin(flatFloor, a.List)
	if strings.HasPrefix(rule, "the smallest") {
		flat = fmt.Sprintf("the same with %.0f%%", 100*flatFloor)
	}
	return text + fmt.Sprintf("%s + %.0f%%: %s.", view.Upper(a.floorName()), 100*flatFloor, flat)
}

// sourceSentence says how the present cache is known, or whose memtables are assumed where there is none.
func (a *Advice) sourceSentence() string {
	if a.Now.CacheBytes == 0 {
		return "Memtables: those of the profile " + a.Engine.Profile + " with each cache, whichever statelab last used. Add --cache to compare with a cache of yours."
	}
	if a.Now.Source == "--cache" {
		return ""
	}
	return view.Upper(cmp.Or(a.Now.Whose, "the present cache")) + " is known from: " + a.Now.Source + "."
}

func (a *Advice) flags(out io.Writer) {
	if a.Recommendation.Keep {
		fmt.Fprintln(out, "\nFlags: none needs to change. These set the present cache:")
	} else {
		fmt.Fprintln(out, "\nFlags")
	}
	printSettings(out, a.Settings[:1])
	fmt.Fprintf(out, "  %-17s %s\n", "file handles", unit.Count(a.Recommendation.Handles))
	if others := a.Settings[1:]; len(others) > 0 {
		fmt.Fprintln(out, "\nOther programs")
		fmt.Fprintln(out, "  "+wrap(a.othersSentence(), "  "))
		printSettings(out, others)
	}
}

// othersSentence says whose the further settings are, and why they are listed.
func (a *Advice) othersSentence() string {
	owner := map[Client]string{Geth: "geth or op-geth", Statelab: "statelab"}[a.Settings[0].Client]
	if owner == "" {
		owner = "a program that is not known here"
	}
	text := "This database belongs to " + owner + ", and the flags above are for it. If another program is to use a database of this size and shape, " +
		"these settings leave it at least as much cache for blocks. Its cache has another size because its memtables take another part of it."
	if slices.ContainsFunc(a.Settings[1:], func(s Setting) bool { return s.Client == Geth }) {
		text += " geth's --cache.database is a whole percentage of --cache, and its database gets at least " + size(GethLeastCache) + "."
	}
	return text
}

func printSettings(out io.Writer, settings []Setting) {
	for _, s := range settings {
		fmt.Fprintf(out, "  %-17s %s\n", clientName(s.Client), strings.ReplaceAll(strings.Join(s.Flags, s.between()), "; ", "\n"+strings.Repeat(" ", 20)))
		text := size(s.CacheBytes) + " for the database"
		if s.MemTables > 0 {
			text += fmt.Sprintf(": %s for blocks while it writes (%d memtables of %s)", size(s.BlockCacheBytes), s.MemTables, size(s.MemTableBytes))
		}
		fmt.Fprintln(out, strings.Repeat(" ", 20)+wrap(text, strings.Repeat(" ", 20)))
	}
}

func clientName(c Client) string {
	return map[Client]string{Geth: "geth, op-geth", Statelab: "statelab", Cosmos: "Cosmos SDK, code", Pebble: "Pebble's options"}[c]
}

func (a *Advice) memory(out io.Writer) {
	if a.Limits.MemoryBytes > 0 {
		fmt.Fprintf(out, "\nMemory, of %s\n", size(a.Limits.MemoryBytes))
	} else {
		fmt.Fprintln(out, "\nMemory")
	}
	for _, s := range a.Memory {
		fmt.Fprintf(out, "  %-26s %10s\n", s.Name, size(s.Bytes))
	}
}

func (a *Advice) disk(out io.Writer) {
	if len(a.Disk.Points) == 0 {
		return
	}
	fmt.Fprintf(out, "\nDisk: random 4-KiB reads past the page cache\n  %9s %10s %10s %10s\n", "in flight", "reads/s", "mean", "p99")
	for _, p := range a.Disk.Points {
		fmt.Fprintf(out, "  %9d %10s %10s %10s\n", p.InFlight, unit.Count(int64(p.ReadsPerSecond)), unit.Nanos(p.MeanNanos), unit.Nanos(float64(p.P99Nanos)))
	}
}

func (a *Advice) measured(out io.Writer) {
	if len(a.Verified) == 0 {
		return
	}
	fmt.Fprintf(out, "\nVerified: block reads per Get at rest, after the warm-up of the run\n  %10s %10s %10s %8s %10s\n",
		"cache", "predicted", "measured", "error", "at device")
	for _, v := range a.Verified {
		device := "–"
		if v.DeviceReadsPerGet != nil {
			device = perGet(*v.DeviceReadsPerGet)
		}
		fmt.Fprintf(out, "  %10s %10s %10s %+7.1f%% %10s\n", size(v.CacheBytes), perGet(v.Predicted), perGet(v.Measured), v.ErrorPercent, device)
	}
}

// wrap breaks text into lines of at most textWidth; further ones start with
// indent, which the first is taken to have already.
func wrap(text, indent string) string {
	used := len(indent)
	if strings.HasPrefix(text, "- ") {
		used = 0
	}
	return view.Wrap(text, used, textWidth, indent)
}
