package runner

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/remote"
)

// Describe prints what the runner holds, for a planner that does not link the
// engines itself.
func Describe(out io.Writer, engines []engine.Engine) error {
	d := remote.Description{Schema: remote.DescriptionSchema}
	for _, e := range engines {
		d.Engines = append(d.Engines, remote.Described{Info: e.Info(), Missing: missing(e)})
	}
	return json.NewEncoder(out).Encode(d)
}

func missing(e engine.Engine) string {
	if d, ok := e.(engine.Dependent); ok {
		if err := d.Ready(); err != nil {
			return err.Error()
		}
	}
	return ""
}

// Check answers a planner's question what is wrong with options.
func Check(in io.Reader, out io.Writer, engines []engine.Engine) error {
	var question remote.Question
	if err := json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(&question); err != nil {
		return fmt.Errorf("read the options to check: %w", err)
	}
	e, err := find(engines, question.Engine)
	if err != nil {
		return err
	}
	mistakes := []string{}
	for _, wrong := range e.Check(question.Options.Options()) {
		mistakes = append(mistakes, wrong.Error())
	}
	return json.NewEncoder(out).Encode(mistakes)
}
