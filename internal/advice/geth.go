package advice

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/result"
)

// Memory is what a process may use, in bytes; 0: not known, or no limit.
type Memory struct {
	MachineBytes int64
	LimitBytes   int64 // of its control group
}

// RunningNode is the process that has a database open.
type RunningNode struct {
	PID     int
	Name    string
	Config  result.NodeConfig
	Memory  Memory
	Started time.Time // zero: not known
}

// MemoryOf is what a watched process may use.
func MemoryOf(m *result.WatchedMemory) Memory {
	if m == nil {
		return Memory{}
	}
	return Memory{m.MachineBytes, m.LimitBytes}
}

// What geth gives its caches where nothing is set (ethconfig.Defaults), in MiB.
const (
	gethDefaultDatabase = 2048
	gethDefaultTrie     = 614
	gethDefaultGC       = 1024
	gethDefaultSnapshot = 409
)

// gethCaches are the caches of a geth, in MiB, as SetEthConfig (cmd/utils/flags.go) makes them:
// --cache is cut to a third of the memory, and a cut counts as given; each cache is its percentage
// of --cache if that or the percentage is given, and else what the file says.
type gethCaches struct {
	all             int64
	database, other int64
	allOption       *result.NodeOption // nil: geth's default
	share           *result.NodeOption // of the database
	cut             bool               // all is less than it was set to
	file            *result.NodeOption // that sets the database's cache; nil: flags do
	unused          *result.NodeOption // of the file, without effect beside flags
}

// gethCachesOf are the caches of a geth whose memory is limitBytes; 0: it has as much as it wants.
func gethCachesOf(c result.NodeConfig, limitBytes int64) (g gethCaches, err error) {
	number := func(name string, otherwise int64) (int64, *result.NodeOption) {
		o := strongest(c, name)
		if o == nil {
			return otherwise, nil
		}

		n, wrong := strconv.ParseInt(o.Value, 10, 64)
		if wrong != nil || n < 0 {
			if err == nil {
				err = fmt.Errorf("%.60q %s is not a number", assigned(o, o.Value), where(o, c))
			}
			return otherwise, o
		}

		return n, o
	}

	g.all, g.allOption = number(gethCache, gethCacheMiB)
	if most := limitBytes / mib / gethMemoryShare; limitBytes > 0 && g.all > most {
		g.all, g.cut = most, true
	}

	cache := func(flag, key string, percent, otherwise int64) (
		size int64, share, file *result.NodeOption,
	) {
		size, file = number(key, otherwise)
		percent, share = number(flag, percent)
		if g.allOption != nil || g.cut || share != nil {
			size = g.all * percent / 100
		}
		return size, share, file
	}

	g.database, g.share, g.file = cache(gethDatabase, gethFileDatabase, gethDefaultPercent,
		gethDefaultDatabase)
	g.database = max(g.database, gethDatabaseMinMiB)
	if g.allOption != nil || g.cut || g.share != nil {
		g.file, g.unused = nil, g.file
	}

	trie, _, _ := cache(gethTrie, gethFileTrie, 15, gethDefaultTrie)
	gc, _, _ := cache(gethGC, gethFileGC, 25, gethDefaultGC)
	snapshot, _, _ := cache(gethSnapshot, gethFileSnapshot, 10, gethDefaultSnapshot)
	g.other = trie + gc + snapshot
	return g, err
}

// GethChange is the smallest change of geth's settings that gives its database at least cacheBytes.
type GethChange struct {
	Flags      []string // to set, such as "--cache.database 60"
	Keeps      string   // the flag that they go with, such as "--cache 32"; "": none is named
	IsDefault  bool     // Keeps is geth's default, and not on the command line
	CacheBytes int64    // that the database then gets
	OtherBytes int64    // more for geth's other caches, by the same flags
	// AllOtherBytes are those of geth's other caches, then.
	AllOtherBytes int64
	// Where they stand and what they replace there; "": on the command line, and it is not known
	// what runs geth.
	Where string

	inFile bool
	notes  string // sentences behind it
}

// ContradictionError says that a node's settings do not make the cache that it runs with.
type ContradictionError struct {
	SetBytes, PresentBytes int64
	Settings               string // that were found, in words
}

// Error names both.
func (e *ContradictionError) Error() string {
	return fmt.Sprintf("its settings (%s) give the database %s, and it runs with %s", e.Settings,
		unit.Bytes(e.SetBytes), unit.Bytes(e.PresentBytes))
}

// presentGeth is how a geth comes to its database's cache; a ContradictionError if its settings
// make another one.
func presentGeth(c result.NodeConfig, presentBytes int64, memory Memory) (
	g gethCaches, limit int64, err error,
) {
	// Versions differ in whether a limit of the control group counts.
	var first error
	for _, limit := range slices.Compact([]int64{lesser(memory.LimitBytes, memory.MachineBytes),
		memory.MachineBytes}) {
		g, err := gethCachesOf(c, limit)
		if err != nil {
			return g, limit, err
		}

		if g.database*mib == presentBytes {
			return g, limit, nil
		}

		if first == nil {
			first = &ContradictionError{SetBytes: g.database * mib, PresentBytes: presentBytes,
				Settings: g.words(c)}
		}
	}

	return g, 0, first
}

// lesser is the smaller of two sizes of which 0 is none.
func lesser(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// CheckGeth is a ContradictionError if a geth's settings make another cache than presentBytes. It
// is nil where they could not all be read, and where --cache is not among them: its default differs
// by version and network.
func CheckGeth(c result.NodeConfig, presentBytes int64, memory Memory) error {
	if len(c.Warnings) > 0 || strongest(c, gethCache) == nil {
		return nil
	}

	_, _, err := presentGeth(c, presentBytes, memory)
	if _, is := errors.AsType[*ContradictionError](err); is {
		return err
	}

	return nil
}

// words are the settings that make the cache.
func (g gethCaches) words(c result.NodeConfig) string {
	if g.file != nil {
		return assigned(g.file, g.file.Value) + " " + where(g.file, c)
	}

	text := fmt.Sprintf("geth's default --cache %d", gethCacheMiB)
	if g.allOption != nil {
		text = assigned(g.allOption, g.allOption.Value)
	}

	if g.cut {
		text += fmt.Sprintf(", cut to %d by a third of the memory", g.all)
	}

	if g.share != nil {
		text += ", " + assigned(g.share, g.share.Value)
	}

	return text
}

// ChangeGeth looks for the smallest change of a geth's settings with which the database has
// wantBytes instead of presentBytes. It fails if they do not give the database what it has: then
// something does that could not be read, or another program wrote the database's options.
func ChangeGeth(
	c result.NodeConfig, presentBytes, wantBytes int64, memory Memory,
) (change GethChange, err error) {
	g, limit, err := presentGeth(c, presentBytes, memory)
	if err != nil {
		return GethChange{}, err
	}

	change.notes = g.notes(c) + memoryBeside(clients.Geth, c)
	want := ceilDiv(wantBytes, mib)
	if g.file != nil {
		change.Flags = []string{assigned(g.file, fmt.Sprint(want))}
		change.CacheBytes, change.AllOtherBytes = want*mib, g.other*mib
		change.inFile = true
		change.Where = fmt.Sprintf("%s, instead of %s", where(g.file, c), g.file.Value)
		change.notes = fmt.Sprintf("%s geth's other caches keep %s.", restartSentence(c),
			unit.Bytes(g.other*mib)) + change.notes
		return change, nil
	}

	set := func(o *result.NodeOption, name string, value int64) string {
		if o == nil {
			o = &result.NodeOption{Name: name}
		}
		return assigned(o, fmt.Sprint(value))
	}

	// Of both, what stands in the environment has to be changed there.
	changed := []*result.NodeOption{g.share}
	share := int64(math.MaxInt64) // of nothing, no share is enough
	if g.all > 0 {
		share = ceilDiv(100*want, g.all)
	}

	if share > gethMostPercent {
		changed = append(changed, g.allOption)
	}

	change.Where = onCommandLine(c)
	for _, o := range changed {
		if o != nil && o.Variable != "" {
			change.Where = where(o, c)
		}
	}

	if share <= gethMostPercent {
		change.Flags = []string{set(g.share, gethDatabase, share)}
		change.Keeps = set(g.allOption, gethCache, gethCacheMiB)
		if g.allOption != nil {
			change.Keeps = assigned(g.allOption, g.allOption.Value)
		}
		change.IsDefault = g.allOption == nil
		change.CacheBytes, change.AllOtherBytes = g.all*share/100*mib, g.other*mib
		return change, nil
	}

	// More for all caches, of which the database gets as much as it can: its share alone of what
	// is given to all would give the others most of what is new.
	more := ceilDiv(100*want, gethMostPercent)
	if limit > 0 && more > limit/mib/gethMemoryShare {
		return GethChange{}, fmt.Errorf("geth gives its caches at most a third of the memory: %s",
			unit.Bytes(limit/gethMemoryShare))
	}

	change.Flags = []string{set(g.allOption, gethCache, more),
		set(g.share, gethDatabase, gethMostPercent)}
	change.CacheBytes = more * gethMostPercent / 100 * mib
	raised := append([]result.NodeOption{{Name: gethCache, Value: fmt.Sprint(more)}}, c.Options...)
	then, err := gethCachesOf(result.NodeConfig{Options: raised}, limit)
	change.OtherBytes, change.AllOtherBytes = (then.other-g.other)*mib, then.other*mib
	return change, err
}

// onCommandLine is where a flag goes; "" where nothing is known of it.
func onCommandLine(c result.NodeConfig) string {
	if c.Unit == "" {
		return ""
	}
	return "on the command line of " + c.Unit
}

// restartSentence reminds of what a changed file needs.
func restartSentence(c result.NodeConfig) string {
	if c.Unit == "" {
		return ""
	}
	return " Then restart " + c.Unit + ";"
}

// notes tell of a setting that has no effect.
func (g gethCaches) notes(c result.NodeConfig) string {
	if g.unused == nil {
		return ""
	}

	why := "beside the flags"
	if g.allOption == nil && g.share == nil {
		why = "since geth cuts its default --cache to a third of the memory, which counts as given"
	}

	return fmt.Sprintf(" %s %s has no effect %s.", assigned(g.unused, g.unused.Value),
		where(g.unused, c), why)
}

// GethRunning are the settings that make a geth's present cache; a ContradictionError if c makes
// another one.
func GethRunning(
	c result.NodeConfig, presentBytes int64, memory Memory, m MemTables,
) (Setting, error) {
	g, _, err := presentGeth(c, presentBytes, memory)
	if err != nil {
		return Setting{}, err
	}

	s := Setting{
		Client: clients.Geth, CacheBytes: presentBytes, OtherCacheBytes: g.other * mib,
		BlockCacheBytes: presentBytes - m.Reserved(presentBytes),
		MemTableBytes:   m.Each(presentBytes), MemTables: m.Live,
	}

	if g.file != nil {
		s.Flags, s.Where = []string{assigned(g.file, g.file.Value)}, where(g.file, c)
		return s, nil
	}

	s.Where = onCommandLine(c)
	s.Flags = []string{fmt.Sprintf("--cache %d", gethCacheMiB)}
	if g.allOption != nil {
		s.Flags[0] = assigned(g.allOption, g.allOption.Value)
	}

	if g.share != nil {
		s.Flags = append(s.Flags, assigned(g.share, g.share.Value))
	}

	return s, nil
}

// GethFrom is the setting after the smallest change of c, or, where it is nil, of flags with which
// a geth with its default of --cache.database has presentBytes.
func GethFrom(
	c *result.NodeConfig, presentBytes, wantBytes int64, memory Memory, m MemTables,
) (Setting, error) {
	if c == nil {
		c = &result.NodeConfig{Options: []result.NodeOption{{Name: gethCache,
			Value: fmt.Sprint(ceilDiv(100*presentBytes, gethDefaultPercent*mib))}}}
	}

	change, err := ChangeGeth(*c, presentBytes, wantBytes, memory)
	if err != nil {
		return Setting{}, err
	}

	return Setting{
		Client: clients.Geth, Flags: change.Flags, CacheBytes: change.CacheBytes,
		BlockCacheBytes: change.CacheBytes - m.Reserved(change.CacheBytes),
		OtherCacheBytes: change.AllOtherBytes, Where: change.Where,
		MemTableBytes: m.Each(change.CacheBytes), MemTables: m.Live,
	}, nil
}

// Sentence says what to set and where, and what stays.
func (c GethChange) Sentence() string {
	text := "To set it: " + strings.Join(c.Flags, " ")
	if c.inFile {
		return text + " " + c.Where + "." + c.notes
	}

	if c.Where != "" {
		text += " " + c.Where
	}

	switch {
	case c.Keeps != "" && c.IsDefault:
		text += fmt.Sprintf(" (geth's default %s and your other flags stay).", c.Keeps)
	case c.Keeps != "":
		text += fmt.Sprintf(" with your %s (the rest of your flags stays).", c.Keeps)
	default:
		text += " (the rest of your flags stays"
		if c.OtherBytes >= mib {
			text += fmt.Sprintf("; geth's other caches get %s more, too",
				unit.Bytes(c.OtherBytes))
		}
		text += ")."
	}

	return text + c.notes
}
