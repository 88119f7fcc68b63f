// Package null is an engine that does nothing: what a run of it costs is the
// cost of the harness.
//
// A Get finds every key and returns as many value bytes as ValueBytes says (the
// override; 0 by default) without touching them. Nothing is kept, so the harness
// does not check values, and reads without a database.
package null

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// Engine does nothing.
type Engine struct{}

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:         "null",
		Version:      "1",
		Route:        "built in",
		Licence:      "as statelab",
		Capabilities: []engine.Capability{engine.IsVolatile, engine.KeepsNothing},
		Profiles: []engine.Profile{{
			Name: "default",
			About: "does nothing: statelab sweep --engine null, with or without a --db, measures " +
				"the harness",
		}},
		Options: []engine.Option{{Name: "ValueBytes", Default: "0", Values: "a size up to 64MiB",
			About: "size of the value that each Get returns"}},
	}
}

// maxValueBytes bounds the one buffer there is.
const maxValueBytes = 64 << 20

// Check names what is wrong with o.
func (Engine) Check(o engine.Options) []error {
	_, errs := valueBytes(o)
	return errs
}

func valueBytes(o engine.Options) (n int64, errs []error) {
	if o.Profile != "" && o.Profile != "default" {
		errs = append(errs, fmt.Errorf("unknown profile %q: use default", o.Profile))
	}

	if o.CacheBytes < 0 || o.Handles < 0 {
		errs = append(errs,
			fmt.Errorf("cache %d, handles %d: neither may be negative", o.CacheBytes, o.Handles))
	}

	for _, name := range slices.Sorted(maps.Keys(o.Overrides)) {
		if name != "ValueBytes" {
			errs = append(errs,
				engine.Fail(engine.CodeOption, "unknown option %q: use ValueBytes", name))
			continue
		}

		parsed, err := unit.ParseBytes(unit.WithUnit(o.Overrides[name]))
		if err != nil || parsed > maxValueBytes {
			errs = append(errs,
				fmt.Errorf("option ValueBytes=%s is illegal: write ValueBytes=110",
					o.Overrides[name]))
		}

		n = parsed
	}

	return n, errs
}

// Open returns a database that keeps nothing.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	n, errs := valueBytes(o)
	if len(errs) > 0 {
		return nil, fmt.Errorf("null: open: %w", errs[0])
	}
	return &db{options: o, value: make([]byte, n)}, nil
}

type db struct {
	options engine.Options
	value   []byte
}

func (d *db) Reader() (engine.Reader, error) { return reader{d.value}, nil }

func (d *db) Writer() (engine.Writer, error) {
	if d.options.ReadsOnly() {
		return nil, fmt.Errorf("null: the database is open for reading only")
	}
	return writer{}, nil
}

func (*db) Sync(context.Context) error { return nil }

func (*db) Settle(context.Context, func(engine.Settling)) error { return nil }

func (*db) Counters() engine.Counters { return engine.Counters{} }

func (*db) Shape() (engine.Shape, error) { return engine.Shape{}, nil }

// CacheBytes is 0: there is no block cache.
func (*db) CacheBytes() int64 { return 0 }

func (d *db) Effective() map[string]string {
	return map[string]string{
		"cache_bytes": "0",
		"handles":     "0",
		"ValueBytes":  strconv.Itoa(len(d.value)),
	}
}

func (*db) Warnings() []engine.Warning { return nil }

func (*db) Close() error { return nil }

type reader struct{ value []byte }

func (r reader) Get(_, dst []byte) ([]byte, bool, error) {
	if n := len(r.value); n <= cap(dst) {
		return dst[:n], true, nil
	}
	return make([]byte, len(r.value)), true, nil
}

func (reader) Close() error { return nil }

type writer struct{}

func (writer) Put(_, _ []byte) error { return nil }

func (writer) Delete([]byte) error { return nil }

func (writer) Commit() error { return nil }

func (writer) Close() error { return nil }
