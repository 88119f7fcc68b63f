package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay/replaytest"
	"github.com/statelab/statelab/tree"
)

// keeper is a tree that kept versions 3 to 9, of which 5 and 9 changed nothing.
type keeper struct {
	replaytest.Tree
	backwards bool
}

func (keeper) Survey(context.Context, string) (tree.Survey, error) {
	return tree.Survey{Stores: []string{"bank", "acc", "empty"}, First: 3, Last: 9}, nil
}

func (k keeper) Harvest(
	_ context.Context, _ string, from, to int64, yield func(int64, string, tree.Change) error,
) error {
	for v := from; v <= to; v++ {
		if v == 5 || v == 9 {
			continue
		}

		at := v
		if k.backwards && v == 7 {
			at = 6
		}

		for _, store := range []string{"bank", "acc"} {
			key := []byte{byte(v)}
			if err := yield(at, store,
				tree.Change{Key: key, Value: []byte(store), Delete: v == 4}); err != nil {
				return err
			}
		}
	}

	return nil
}

func ask(t *testing.T, question string, in any, trees ...tree.Tree) (code int, out, words string) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = ServeTrees(question, bytes.NewReader(text), &stdout, &stderr, trees)
	return code, stdout.String(), stderr.String()
}

func TestHarvestKeepsEveryVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set.slcs")
	code, out, words := ask(t, protocol.Harvest,
		protocol.HarvestOrder{Tree: "replaytest", Dir: "db", First: 1, Last: 20, Out: path},
		keeper{})
	var h tree.Survey
	if err := json.Unmarshal([]byte(out), &h); code != 0 || err != nil || h.First != 3 ||
		h.Last != 9 {
		t.Fatal(code, out, words, err)
	}

	set, err := changeset.Open(os.DirFS(filepath.Dir(path)), "set.slcs", "")
	if err != nil {
		t.Fatal(err)
	}

	if info := set.Info(); fmt.Sprint(info.Stores) != "[bank acc empty]" ||
		info.Order != changeset.OrderSortedNet || info.First != 3 || info.Last != 9 {
		t.Errorf("%+v", info)
	}

	var got []string
	if err := changeset.Each(set, &changeset.Batch{}, func(b *changeset.Batch) error {
		text := fmt.Sprint(b.Version, ":")
		for _, c := range b.Changes {
			text += fmt.Sprintf(" %d/%x=%s,%v", c.Store, c.Key, c.Value, c.Delete)
		}

		got = append(got, text)
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	want := "3 : 0/03=bank,false 1/03=acc,false; 4 : 0/04=,true 1/04=,true; 5 :; " +
		"6 : 0/06=bank,false 1/06=acc,false; 7 : 0/07=bank,false 1/07=acc,false; " +
		"8 : 0/08=bank,false 1/08=acc,false; 9 :"
	text := strings.Join(got, "; ")
	if strings.ReplaceAll(text, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestHarvestThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	order := protocol.HarvestOrder{
		Tree: "replaytest",
		Dir:  "db",
		Out:  filepath.Join(dir, "set.slcs"),
	}

	if code, _, words := ask(t, protocol.Harvest, order, keeper{backwards: true}); code != 1 ||
		!strings.Contains(words, "acc") && !strings.Contains(words, "6") {
		t.Errorf("%d %s", code, words)
	}

	if code, _, words := ask(t, protocol.Harvest, order, replaytest.Tree{}); code != 1 ||
		!strings.Contains(words, "cannot harvest") {
		t.Errorf("%d %s", code, words)
	}

	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestTreesAnswerQuestions(t *testing.T) {
	code, out, _ := ask(t, protocol.Describe, nil, replaytest.Tree{})
	var d protocol.Description
	if err := json.Unmarshal([]byte(out), &d); code != 0 || err != nil || len(d.Trees) != 1 ||
		d.Trees[0].RootRule != "replaytest" {
		t.Errorf("%d %s", code, out)
	}

	code, out, _ = ask(t, protocol.Check,
		protocol.TreeQuestion{Tree: "replaytest", Overrides: map[string]string{"Nonsense": "1"}},
		replaytest.Tree{})
	if code != 0 || strings.TrimSpace(out) != `["unknown option \"Nonsense\""]` {
		t.Errorf("%d %s", code, out)
	}

	if code, _, words := ask(t, "dance", nil, replaytest.Tree{}); code != 1 ||
		!strings.Contains(words, `no question "dance"`) {
		t.Errorf("%d %s", code, words)
	}

	if code, _, words := ask(t, "", map[string]string{"schema": "other"},
		replaytest.Tree{}); code != 2 || !strings.Contains(words, "statelab.replayspec/1") {
		t.Errorf("%d %s", code, words)
	}
}
