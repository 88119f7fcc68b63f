package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/statelab/statelab/engine"
)

// maxJSONBytes bounds what is read from a folder that may lie.
const maxJSONBytes = 256 << 20

// WriteJSON writes v, whole or not at all; the folder is the caller's. It leaves the old
// file or none where it fails.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return Atomically(path, func(f *os.File) error {
		_, err := f.Write(append(text, '\n'))
		return err
	})
}

// ReadJSON reads what WriteJSON wrote, whose schema must be the one of this version.
func ReadJSON[T any](path, schema string, schemaOf func(*T) string) (*T, error) {
	v := new(T)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJSONBytes))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		if !bytes.HasSuffix(text, []byte("}\n")) { // how WriteJSON ends a file
			return nil, engine.Fail(engine.CodeDamaged, "%s is damaged: it is cut short", path)
		}
		return nil, engine.Fail(engine.CodeDamaged, "%s is damaged: %w", path, err)
	}
	if found := schemaOf(v); found != schema {
		return nil, engine.Fail(engine.CodeUnsupported, "%s: schema is %q, this version reads %q", path, found, schema)
	}
	return v, nil
}
