package result

import (
	"errors"

	"github.com/statelab/statelab/engine"
)

// Why says beside the text of an error what kind of failure it is: see engine.Failure.
// Files of earlier versions lack it.
type Why struct {
	Code   engine.Code `json:"error_code,omitempty"`
	Remedy string      `json:"error_remedy,omitempty"` // what the user can do
}

// WhyOf is what is stored of a failure beside its text. That a file of a run is missing
// is no wrong name.
func WhyOf(f *engine.Failure) Why {
	if f.Code == engine.CodeMissing {
		return Why{Code: f.Code}
	}
	return Why{f.Code, f.Remedy}
}

// Failure is the error whose text was stored beside w.
func (w Why) Failure(text string) error {
	return &engine.Failure{Code: w.Code, Remedy: w.Remedy, Err: errors.New(text)}
}

// Tell is the text that was stored beside w, with the remedy.
func (w Why) Tell(text string) string {
	if text == "" || w.Remedy == "" {
		return text
	}
	return text + ": " + w.Remedy
}
