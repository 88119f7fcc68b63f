package tree

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
)

// Override is a whole number that a tree can be told by its own name for it.
type Override struct {
	Name      string
	Default   int64
	Low, High int64 // both legal
}

// In is the value of the override in o, which Problems found legal.
func (v Override) In(o Options) int64 {
	if n, err := v.parse(o.Overrides[v.Name]); err == nil {
		return n
	}
	return v.Default
}

func (v Override) parse(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err == nil && (n < v.Low || n > v.High) {
		err = strconv.ErrRange
	}
	return n, err
}

// Problems names what is wrong with o for any tree that i describes and that
// knows these overrides. It touches no file.
func (o Options) Problems(i Info, known ...Override) (errs []error) {
	if o.Profile != "" &&
		!slices.ContainsFunc(i.Profiles,
			func(p engine.Profile) bool { return p.Name == o.Profile }) {
		errs = append(errs, fmt.Errorf("unknown profile %q: use %s", o.Profile, i.Profiles[0].Name))
	}

	if o.CacheNodes < 0 || o.MemoryBytes < 0 {
		errs = append(errs,
			fmt.Errorf("cache of %d nodes, memory of %d bytes: neither may be negative",
				o.CacheNodes, o.MemoryBytes))
	}

	if o.FirstVersion < 0 || o.FirstVersion > math.MaxUint32 {
		errs = append(errs,
			fmt.Errorf("first version %d: use 1 to %d", o.FirstVersion, uint32(math.MaxUint32)))
	}

	errs = append(errs, storeProblems(o.Stores)...)
	for _, name := range slices.Sorted(maps.Keys(o.Overrides)) {
		at := slices.IndexFunc(known, func(v Override) bool { return v.Name == name })
		if at < 0 {
			errs = append(errs,
				engine.Fail(engine.CodeOption, "unknown option %s: %s", name,
					describe(i.Name, known)))
			continue
		}

		v := known[at]
		if _, err := v.parse(o.Overrides[name]); err != nil {
			errs = append(errs,
				fmt.Errorf("option %s=%s is illegal: write %s=%d (%d to %d)", name,
					o.Overrides[name], name, v.Default, v.Low, v.High))
		}
	}

	return errs
}

func describe(tree string, known []Override) string {
	if len(known) == 0 {
		return tree + " has none"
	}
	var examples []string
	for _, v := range known {
		examples = append(examples, fmt.Sprintf("%s=%d", v.Name, v.Default))
	}
	return tree + " knows " + strings.Join(examples, ", ")
}

func storeProblems(stores []string) (errs []error) {
	if len(stores) == 0 {
		return []error{errors.New("no store is named: name at least one, such as bank")}
	}

	for i, name := range stores {
		switch {
		case name == "":
			errs = append(errs, fmt.Errorf("store %d has no name", i))
		case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
			strings.ContainsAny(name, "/\\\x00"):
			errs = append(errs,
				fmt.Errorf("store %q: trees make files of that name: use one without slashes, "+
					"dots or underscores ahead", name))
		case slices.Contains(stores[:i], name):
			errs = append(errs, fmt.Errorf("store %s is named twice", name))
		}
	}

	return errs
}

// SameStores wants o.Stores to be what the forest in o.Dir holds, in any order.
func (o Options) SameStores(held []string) error {
	held = slices.Sorted(slices.Values(held))
	wanted := slices.Sorted(slices.Values(o.Stores))
	if !slices.Equal(held, wanted) {
		return fmt.Errorf("%s holds the stores %s, not %s", o.Dir, strings.Join(held, ", "),
			strings.Join(wanted, ", "))
	}
	return nil
}

// CloneKV copies key and value into one piece of memory, for trees that keep the
// slices they are given. Neither copy is nil.
func CloneKV(key, value []byte) (keptKey, keptValue []byte) {
	kept := make([]byte, 0, len(key)+len(value))
	kept = append(append(kept, key...), value...)
	return kept[:len(key):len(key)], kept[len(key):]
}
