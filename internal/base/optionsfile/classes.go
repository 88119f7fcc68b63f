package optionsfile

import (
	"slices"
	"strings"
)

// Class says what becomes of an option of a database's owner when its Gets are measured or
// simulated here.
type Class string

// Classes of options.
const (
	// Applied: the database is opened with it to be measured, and simulated with it.
	Applied Class = "applied"
	// Measured: the database is opened with it, and it says nothing that a simulation needs.
	Measured Class = "measured"
	// Simulated: it is part of the model. The database that is measured is opened with something
	// that reads as much.
	Simulated Class = "simulated"
	// Replaced: a flag of ours decides instead, and tells the same of every engine.
	Replaced Class = "replaced"
	// Inert: it cannot change which blocks a Get reads of the files that are there.
	Inert Class = "inert"
	// Unmodelled: it changes what a Get reads, in a way that is neither obeyed nor simulated. Its
	// known values are those with which it changes nothing.
	Unmodelled Class = "unmodelled"
)

// Option is what is known of an option that a library writes or takes.
type Option struct {
	Library Library
	Kind    string // of its section: CFOptions
	Name    string
	Class   Class
	Why     string // why Inert, by what Replaced, what it changes if Unmodelled
	// Values are those that are known, of which one that ends with * is the beginning; empty: all
	// of its type mean what Class says.
	Values []string
}

// Library is one that writes or takes options.
type Library string

// Libraries. The LevelDBs write no file of their options.
const (
	RocksDB   Library = "RocksDB"
	Pebble    Library = "Pebble"
	GoLevelDB Library = "goleveldb"
	LevelDB   Library = "LevelDB"
)

// Knows reports whether a value is one that the class holds for.
func (o *Option) Knows(value string) bool {
	return len(o.Values) == 0 || slices.ContainsFunc(o.Values, func(known string) bool {
		begin, isPrefix := strings.CutSuffix(known, "*")
		return known == value || isPrefix && strings.HasPrefix(value, begin)
	})
}

// group is options of one section that have a class for one reason.
type group struct {
	library Library
	kind    string
	class   Class
	why     string
	names   string // separated by spaces or lines; name=a,b has these known values
}

// Options are all that are known.
func Options() (all []Option) {
	for _, g := range slices.Concat(rocksDB(), pebble(), levelDBs()) {
		for _, name := range strings.Fields(g.names) {
			o := Option{Library: g.library, Kind: g.kind, Name: name, Class: g.class, Why: g.why}
			if name, values, restricted := strings.Cut(name, "="); restricted {
				o.Name, o.Values = name, strings.Split(values, ",")
			}
			all = append(all, o)
		}
	}

	return all
}

// Doubt is an option of a file that may change what Gets read, unknown to this program.
type Doubt struct {
	Section     Section
	Name, Value string
	Known       *Option // nil: the option itself is unknown, else the value is
}

// LibraryOf tells whose file it is; "" is nobody's that is known.
func LibraryOf(sections []Section) Library {
	for _, s := range sections {
		switch {
		case s.Kind != "Version":
		case s.Values["rocksdb_version"] != "":
			return RocksDB
		case s.Values["pebble_version"] != "":
			return Pebble
		}
	}

	return ""
}

// Doubts are the options in no class and the values that are not known, in the order of the
// sections and by name. A column family's options count only if counts says so; nil: all do.
func Doubts(sections []Section, counts func(family string) bool) (doubts []Doubt) {
	type key struct{ kind, name string }
	library, known := LibraryOf(sections), map[key]*Option{}
	if library == "" {
		return nil
	}

	for _, o := range Options() {
		if o.Library == library {
			known[key{o.Kind, o.Name}] = &o
		}
	}

	for _, s := range sections {
		ofFamily := s.Kind == "CFOptions" || strings.HasPrefix(s.Kind, "TableOptions/")
		if s.Kind == "Version" || s.Kind == "TestOptions" ||
			ofFamily && counts != nil && !counts(s.Name) {
			continue
		}

		var names []string
		for name := range s.Values {
			names = append(names, name)
		}

		slices.Sort(names)
		for _, name := range names {
			o := known[key{s.Kind, name}]
			if o == nil || !o.Knows(s.Values[name]) {
				doubts = append(doubts, Doubt{s, name, s.Values[name], o})
			}
		}
	}

	return doubts
}
