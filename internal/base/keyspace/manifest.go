package keyspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
)

// ManifestSchema is the version of the manifest file.
const ManifestSchema = "statelab.manifest/1"

// ManifestPath is where a database's manifest stands. Engines ignore the folder.
func ManifestPath(dir string) string { return filepath.Join(dir, engine.OwnFolder, "manifest.json") }

// Manifest says what a database holds, so that any reader can regenerate and
// check every key and value.
type Manifest struct {
	Schema     string            `json:"schema"`
	Engine     string            `json:"engine"`
	Version    string            `json:"engine_version"`
	Profile    string            `json:"profile"`
	Overrides  map[string]string `json:"overrides,omitempty"`
	Workload   string            `json:"workload"` // fillrandom or fillsorted
	Keys       uint64            `json:"keys"`
	KeyBytes   int               `json:"key_bytes"`
	KeyOrder   string            `json:"key_order"`
	KeyHash    string            `json:"key_hash"`
	ValueModel string            `json:"value_model"`
	ValueBytes int               `json:"value_bytes"`
	Seed       uint64            `json:"seed"`
	BatchKeys  int               `json:"batch_keys"`

	// Loaded keys: indexes below it are durably in the database. Equal to Keys
	// once the load is complete.
	Loaded  uint64 `json:"loaded"`
	Settled bool   `json:"settled"` // background work had ended when the load did
	// MaxVersion is how many times any key may have been overwritten.
	MaxVersion uint32 `json:"max_version"`
	// Age is how long the load was to overwrite keys, Aged how many rounds it has.
	Age  string `json:"age,omitempty"`
	Aged uint32 `json:"aged,omitempty"`
}

// KeySpace returns the manifest's keys.
func (m *Manifest) KeySpace() Keys {
	return Keys{Count: m.Keys, Bytes: m.KeyBytes, Order: m.KeyOrder, Hash: m.KeyHash, Seed: m.Seed}
}

// Values returns the manifest's values.
func (m *Manifest) Values() (*Values, error) { return NewValues(m.ValueModel, m.ValueBytes, m.Seed) }

// WriteManifest writes the manifest of the database in dir, whole or not at all.
func WriteManifest(dir string, m *Manifest) error {
	m.Schema = ManifestSchema
	path := ManifestPath(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return output.WriteJSON(path, m)
}

// ErrNoManifest says that the database was not loaded by statelab.
var ErrNoManifest = errors.New("no statelab manifest")

// ReadManifest reads and checks the manifest of the database in dir.
func ReadManifest(dir string) (*Manifest, error) {
	path := ManifestPath(dir)
	m, err := output.ReadJSON(path, ManifestSchema, func(m *Manifest) string { return m.Schema })
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, ErrNoManifest
	case err != nil:
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, engine.Fail(engine.CodeDamaged, "%s is damaged: %w", path, err)
	}
	return m, nil
}

func (m *Manifest) check() error {
	if m.Loaded > m.Keys {
		return fmt.Errorf("it claims %d loaded of %d keys", m.Loaded, m.Keys)
	}
	_, err := m.Values()
	return errors.Join(append(m.KeySpace().Check(), err)...)
}
