package resolve

import (
	"fmt"
	"testing"

	livechurn "github.com/statelab/statelab/internal/base/livedir/churn"
)

// TestBesideItsOwner resolves Gets of a database, and looks at its tables, while its owner writes
// all keys anew and replaces tables and logs all the time: every key is there at each moment.
func TestBesideItsOwner(t *testing.T) {
	const keys, times = 400, 40
	key := func(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

	for _, f := range flavours() {
		if testing.Short() && f.name != "pebble1 newest" && f.name != "pebble2 newest" {
			continue
		}

		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, f, dir, true)
			write := func(number int) error {
				b := s.batch()
				for i := range keys {
					if err := b.set(key(i), fmt.Appendf(nil, "%0100d", number)); err != nil {
						return err
					}
				}

				if err := b.commit(); err != nil {
					return err
				}

				if number%3 == 0 {
					return s.compactAll()
				}

				return s.flush()
			}

			must(t, write(1))

			livechurn.RunBeside(
				t,
				func(number int) error { return write(number + 1) },
				times,
				func() error {
					r, err := Open(dir, f.version)
					if err != nil {
						return err
					}

					walk := r.Walker()
					for i := 0; i < keys; i += 7 {
						if _, found, err := walk.Get(key(i), false, nil); err != nil || !found {
							return fmt.Errorf("key %d: found %v, %w", i, found, err)
						}
					}

					if err := r.Close(); err != nil {
						return err
					}

					tables, err := ReadTableProperties(dir, f.version)
					n := int64(0)
					for _, table := range tables {
						n += table.Keys
					}

					if err != nil || n < keys {
						return fmt.Errorf("%d keys in %d tables: %w", n, len(tables), err)
					}

					if name, err := Identify(dir, f.version); err != nil || name == "" {
						return fmt.Errorf("identity %q: %w", name, err)
					}

					return nil
				},
			)

			must(t, s.close())
		})
	}
}
