package null

import (
	"testing"

	"github.com/statelab/statelab/engine"
)

func TestGet(t *testing.T) {
	db, err := Engine{}.Open(t.Context(), engine.Options{Overrides: map[string]string{
		"ValueBytes": "110",
	}})
	if err != nil {
		t.Fatal(err)
	}

	r, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	key, dst := []byte("any"), make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		value, found, err := r.Get(key, dst)
		if err != nil || !found || len(value) != 110 || &value[0] != &dst[:1][0] {
			t.Fatal(len(value), found, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a Get", n)
	}

	if value, _, _ := r.Get(key, nil); len(value) != 110 {
		t.Errorf("%d bytes without a buffer, want 110", len(value))
	}
}

func TestCheck(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"profile": {Profile: "fast"}, "override": {Overrides: map[string]string{"Cache": "1"}},
		"size": {Overrides: map[string]string{"ValueBytes": "1TiB"}}, "cache": {CacheBytes: -1},
	} {
		if errs := (Engine{}).Check(o); len(errs) != 1 {
			t.Errorf("%s: %v, want one error", name, errs)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	db, err := Engine{}.Open(b.Context(), engine.Options{})
	if err != nil {
		b.Fatal(err)
	}

	r, err := db.Reader()
	if err != nil {
		b.Fatal(err)
	}

	key, dst := make([]byte, 32), make([]byte, 0, 128)
	for b.Loop() {
		if _, _, err := r.Get(key, dst); err != nil {
			b.Fatal(err)
		}
	}
}
