package dbformat

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/internal/base/livedir/churn"
)

// want is the error of an answer that differs from that at rest.
func want[T comparable](got, atRest T, err error) error {
	if err == nil && got != atRest {
		err = fmt.Errorf("%v, want %v", got, atRest)
	}
	return err
}

// TestBesideAnOwner asks whose a database is while its owner writes its options, a marker or
// CURRENT anew.
func TestBesideAnOwner(t *testing.T) {
	const options = "[Version]\n  pebble_version=0.1\n[Options]\n  key_schema=x\n"
	rest := map[string]string{
		"CURRENT":         "MANIFEST-000001\n",
		"MANIFEST-000001": "",
		"000004.sst":      "",
	}

	for name, read := range map[string]func(dir string) error{
		"Recognise": func(dir string) error {
			found, err := Recognise(dir)
			return want(found, Found{"pebble1", 1}, err)
		},
		"File": func(dir string) error {
			return want(File(filepath.Join(dir, "000004.sst")) != nil, true, nil)
		},
		"pebbleWriter": func(dir string) error {
			writer, err := pebbleWriter(dir)
			return want(writer, "pebble2", err)
		},
		"ReadKeptByPebble": func(dir string) error {
			kept, err := ReadKeptByPebble(dir)
			return want(kept.NoFilters, true, err)
		},
	} {
		t.Run("options/"+name, func(t *testing.T) {
			dir := folder(t, rest)
			churn.Replace(t, dir, "OPTIONS-%06d", options, churn.Times, func() error {
				return read(dir)
			})
		})
	}

	t.Run("marker", func(t *testing.T) {
		dir := folder(t, map[string]string{"marker.format-version.000001.013": ""})
		churn.Replace(t, dir, "marker.manifest.%06d.MANIFEST-000001", "", churn.Times,
			func() (err error) {
				name := ""
				err = livedir.Retry(dir, func() (err error) {
					name, err = PebbleManifest(dir)
					return err
				})

				return want(name, "MANIFEST-000001", err)
			})
	})

	t.Run("CURRENT", func(t *testing.T) {
		dir := folder(t, rest)
		renew := func(int) error {
			next := filepath.Join(dir, "CURRENT.dbtmp")
			if err := os.WriteFile(next, []byte("MANIFEST-000001\n"), 0o644); err != nil {
				return err
			}
			return os.Rename(next, filepath.Join(dir, "CURRENT"))
		}

		churn.RunBeside(t, renew, churn.Times, func() error {
			found, err := Recognise(dir)
			return want(found, Found{Engine: "goleveldb"}, err)
		})
	})
}
