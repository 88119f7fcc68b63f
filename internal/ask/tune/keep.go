package tune

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/model/reblock"
)

// KeptFile is what an unfinished search leaves in the folder of its answer.
const KeptFile = "predicted.json"

// VerifyFolder has the databases and runs of --verify, in the folder of the answer.
const VerifyFolder = "verify"

// Folder takes the folder of the answer: a new one, or that of a search that was interrupted, in which nothing is measured yet.
func Folder(out string, goesOn bool) (free func() error, err error) {
	if !goesOn {
		return output.MakeFolder(out)
	}
	held, err := output.Hold(out)
	if err != nil {
		return nil, err
	}
	return held.Close, os.RemoveAll(filepath.Join(out, VerifyFolder))
}

const keptSchema = "statelab.tune.predicted/1"

// kept are the configurations that a search has predicted.
type kept struct {
	Schema    string      `json:"schema"`
	Question  string      `json:"question"` // a hash of all that predictions depend on
	Predicted []predicted `json:"predicted"`
	// Costs are those on which the predictions of time rest.
	Costs *tuned.Costs `json:"costs,omitempty"`
}

type predicted struct {
	Samples int            `json:"samples"` // from which it was
	Tables  reblock.Tables `json:"tables"`
	Config  tuned.Config   `json:"config"`
}

// question is a hash of all that the predictions of the search depend on.
func (s *search) question() (string, error) {
	spec := &s.Gets.Spec
	text, err := json.Marshal([]any{s.Source, s.Gets.Version, spec.Engine, spec.Profile, spec.Overrides, spec.MissingShare, spec.AccessList,
		spec.KeyScheme, s.gets, s.Trace, s.MemoryBytes, s.Cores, s.Seeds, s.OnlyLevels, s.Present, s.Options, s.Levels, s.kind.Compression,
		s.Goal == Time, s.ReadTime})
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// resume takes over what an interrupted search of the same question has kept.
func (s *search) resume() error {
	if s.Keep == "" {
		return nil
	}
	question, err := s.question()
	if err != nil {
		return err
	}
	before, err := output.ReadJSON(s.Keep, keptSchema, func(k *kept) string { return k.Schema })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		before = &kept{Schema: keptSchema, Question: question}
	case err != nil:
		return err
	case before.Question != question:
		return engine.Fail(engine.CodeExists, "%s is of a search with other flags or of another database: choose another folder", s.Keep)
	}
	s.kept = *before
	s.recall()
	return nil
}

// recall makes those predictions known that were made from as many samples as there are.
func (s *search) recall() {
	clear(s.known)
	for _, p := range s.kept.Predicted {
		if p.Samples == len(s.samples) {
			s.known[p.Tables] = p.Config
		}
	}
}

// keep remembers predictions.
func (s *search) keep(some []reblock.Tables, configs []tuned.Config) error {
	for i, to := range some {
		s.known[to] = configs[i]
		s.kept.Predicted = append(s.kept.Predicted, predicted{len(s.samples), to, configs[i]})
	}
	if s.Keep == "" {
		return nil
	}
	return output.WriteJSON(s.Keep, s.kept)
}
