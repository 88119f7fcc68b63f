package runner

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/chunktrie"
	"github.com/statelab/statelab/result"
)

func askStates(t *testing.T, question string, in any) (code int, out, words string) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}

	var stdout, stderr bytes.Buffer
	code = ServeLayouts(question, bytes.NewReader(text), &stdout, &stderr, []layout.Layout{
		chunktrie.Layout{},
	})
	return code, stdout.String(), stderr.String()
}

func TestStatesAnswerQuestions(t *testing.T) {
	code, out, _ := askStates(t, protocol.Describe, nil)
	var d protocol.Description
	if err := json.Unmarshal([]byte(out), &d); code != 0 || err != nil || len(d.Layouts) != 1 ||
		d.Layouts[0].Root != layout.EthereumRoot ||
		len(d.Layouts[0].Profiles) != 2 {
		t.Errorf("%d %s", code, out)
	}

	code, out, _ = askStates(t, protocol.Check, protocol.LayoutQuestion{
		Layout:      "chunktrie",
		MemoryBytes: 1,
		Overrides:   map[string]string{"Nonsense": "1"},
	})

	var mistakes []string
	if err := json.Unmarshal([]byte(out),
		&mistakes); code != 0 || err != nil || len(mistakes) != 2 {
		t.Errorf("%d %s", code, out)
	}

	for _, question := range []string{protocol.Harvest, "nonsense"} {
		if code, _, words := askStates(t, question, nil); code != 1 ||
			!strings.Contains(words, question) {
			t.Errorf("%s: %d %s", question, code, words)
		}
	}
}

func TestStatesRefuseAndRunSpecs(t *testing.T) {
	spec := protocol.LayoutSpec{
		Schema: "statelab.layoutspec/0",
		Layout: "chunktrie",
		Stage:  protocol.Build,
		Out:    t.TempDir(),
		Dir:    filepath.Join(t.TempDir(), "state"),
		Chain:  protocol.Chain{Accounts: 10, BlockAccounts: 3},
	}

	if code, _, words := askStates(t, "",
		spec); code != 2 || !strings.Contains(words, spec.Schema) {
		t.Errorf("another version: %d %s", code, words)
	}

	spec.Schema = schema.LayoutSpec
	other := spec
	other.Layout = "other"
	if code, _, words := askStates(t, "", other); code != 2 ||
		!strings.Contains(words, "only chunktrie") {
		t.Errorf("another layout: %d %s", code, words)
	}

	code, out, words := askStates(t, "", spec)
	run, err := result.ReadRun(spec.Out)
	if code != 0 || err != nil || run.Status != result.OK || run.Figures.State.Block != 4 ||
		!strings.Contains(out, `"phase":"build"`) {
		t.Errorf("%d %v %s %s", code, err, out, words)
	}
}
