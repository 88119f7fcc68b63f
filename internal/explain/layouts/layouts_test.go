package layouts

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/web"
)

func of(l *result.Layouts) Input { return Input{claims.Evidence{Layouts: l}} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// measuredLayouts is a run of statelab layouts on a volume of its own:
//
//	--layout flat-pebble,pagetrie,chunktrie:unpinned,geth-hash,geth-path
//	--accounts 1k,10k,100k --reads 2k --memory 16MiB --updates 500 --update-blocks 5
func measuredLayouts(t testing.TB) *result.Layouts {
	t.Helper()
	l, err := result.ReadLayouts(filepath.Join("testdata", "layouts"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLayoutsText(t *testing.T) {
	var out bytes.Buffer
	must(t, render.Terminal(&out, of(measuredLayouts(t)).Document()))
	for n, line := range strings.Split(out.String(), "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("line %d has %d columns: %s", n+1, len([]rune(line)), line)
		}
	}

	golden := filepath.Join("testdata", "layouts.txt")
	if *update {
		must(t, os.WriteFile(golden, out.Bytes(), 0o644))
	}

	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("text differs (-want +got):\n%s", diff)
	}
}

// The page says what the text says, answer first, and loads nothing.
func TestLayoutsPage(t *testing.T) {
	l := measuredLayouts(t)
	many := *l
	for _, name := range []string{"nomt", "nomt:prove", "qmdb", "ours:<b>"} {
		for _, row := range l.Rows[:1] {
			row.Layout = name
			many.Rows = append(slices.Clone(many.Rows), row)
		}
	}

	for name, l := range map[string]*result.Layouts{
		"measured": l,
		"many":     &many,
		"nothing":  {Command: []string{"statelab", "layouts"}},
		"failed": {Rows: []result.LayoutRow{{
			Layout:   "pagetrie",
			Accounts: 1000,
			Status:   result.Failed,
			Error:    "killed",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			must(t, writePage(&out, l))
			page := out.String()
			wellFormed(t, page)
			page = own.Replace(page)
			for _, bad := range []string{"<script", "<link", "<img", "@import", "url(", "NaN",
				"%!", "ZgotmplZ", "<nil>", "<b>ours", "<td>ours:<b>"} {
				if strings.Contains(page, bad) {
					t.Errorf("the page holds %q", bad)
				}
			}
		})
	}

	var out bytes.Buffer
	must(t, writePage(&out, l))
	at := 0
	for _, words := range []string{"A lookup of one of 100k accounts costs", "What a lookup costs",
		"Which claims to believe", "One read for every node",
		"Reads per lookup", "All figures", "no measurement", "Every kind of lookup"} {
		next := strings.Index(out.String()[at:], words)
		if next < 0 {
			t.Fatalf("the page lacks %q, or has it too early", words)
		}
		at += next
	}
}

// methods is where a page links to; ownScript is the script that every page has, own takes what a
// page runs and the figures of its charts away.
const methods = "https://github.com/statelab/statelab/blob/main/docs/"

var (
	ownScript = "<script>" + web.ReportScript + "</script>"
	own       = strings.NewReplacer(ownScript, "", "<script>"+web.ChartLibrary+"\n"+web.ChartScript+
		"</script>", "",
		`<script type="application/json" class="chart-data">`, "<data>")
)

// wellFormed parses the page and refuses what could run or load something.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(text, ownScript) {
		t.Error("the page lacks its own script")
	}

	text = strings.ReplaceAll(own.Replace(text), "</script>", "</data>")
	parser := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := parser.Token()
		if errors.Is(err, io.EOF) {
			return
		}

		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}

		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}

		if name := element.Name.Local; slices.Contains([]string{"script", "img", "link", "iframe",
			"object", "image", "use"}, name) {
			t.Errorf("the page holds a <%s>", name)
		}

		for _, attr := range element.Attr {
			name := attr.Name.Local
			if strings.HasPrefix(name, "on") || name == "src" ||
				name == "href" && !strings.HasPrefix(attr.Value, methods) &&
					!strings.HasPrefix(attr.Value, "#s") {
				t.Errorf("the page holds %s=%q", name, attr.Value)
			}
		}
	}
}

var update = flag.Bool("update", false, "rewrite the expected texts in testdata")

func writePage(w io.Writer, l *result.Layouts) error { return render.Page(w, of(l).Document()) }

// Figures that no machine measures are drawn as absent, with a word.
func TestAbsurdFiguresAreBounded(t *testing.T) {
	for name, change := range map[string]func(*result.Layouts){
		"disk":  func(l *result.Layouts) { l.Rows[0].DiskPerAccount = figure.Known(1e308) },
		"nodes": func(l *result.Layouts) { l.Rows[0].Nodes = figure.Known(1e308) },
		"reads": func(l *result.Layouts) { l.Rows[0].Lookups[0].DeviceReads = figure.Known(1e308) },
		"tiny":  func(l *result.Layouts) { l.Rows[0].PredictedReads = figure.Known(1e-308) },
		"outlook": func(l *result.Layouts) {
			l.Outlook[slices.IndexFunc(l.Outlook, func(o result.LayoutOutlook) bool {
				return o.Figure == "nodes_per_lookup"
			})].Value = 1e308
		},
		"size": func(l *result.Layouts) { l.Rows[0].Accounts = 1 << 63 },
	} {
		l := measuredLayouts(t)
		change(l)
		var page, text bytes.Buffer
		must(t, writePage(&page, l))
		must(t, render.Terminal(&text, of(l).Document()))
		wellFormed(t, page.String())
		if name != "tiny" && !strings.Contains(page.String(), doc.Absurd) {
			t.Errorf("%s: the page does not say %q", name, doc.Absurd)
		}
	}
}

// Which layout for so many accounts with so much memory: the one with the fewest predicted
// reads, all others after it.
func TestWhichLayout(t *testing.T) {
	ahead := func(layout string, memory int64, reads float64) result.LayoutOutlook {
		return result.LayoutOutlook{
			Layout:      layout,
			Figure:      "device_reads_per_lookup",
			Accounts:    5e7,
			MemoryBytes: memory,
			Value:       reads,
		}
	}

	in := of(&result.Layouts{
		Workload: result.StateWorkload{At: []uint64{5e7}, AtMemory: []int64{4 << 30, 64 << 30}},
		Rows: []result.LayoutRow{
			{Layout: "b", Status: result.OK},
			{Layout: "a", Status: result.OK},
			{Layout: "c", Status: result.OK},
		},
		Outlook: []result.LayoutOutlook{ahead("a", 4<<30, 2), ahead("b", 4<<30, 1),
			ahead("a", 64<<30, 0), ahead("b", 64<<30, 0)},
	})

	got := strings.Join(in.asked(), "\n")
	want := "With 50M accounts and 4 GiB of memory, b reads least: 1.00 device reads for each " +
		"lookup of an account with warm caches, by prediction " +
		"(the first lookup of a state, which statelab price predicts, reads many times as much); " +
		"a 2.00. Without a prediction: c.\nWith 50M accounts and 64 GiB of memory, b, a all read " +
		"nothing of the device to look up an account, by prediction: choose by something else."

	if got != want {
		t.Error(got)
	}

	if table := in.costs(); !slices.ContainsFunc(table.Heads, func(h doc.Head) bool {
		return h.Name == "at 50M with" && h.Unit == "4 GiB"
	}) {
		t.Errorf("the first table does not have the size that was asked for: %+v", table.Heads)
	}
}

// As much memory for each account as in the run says nothing where the state fitted in it.
func TestOutlookWithMemoryAlike(t *testing.T) {
	for disk, want := range map[int64]bool{32 << 20: false, 128 << 20: true} {
		in := of(&result.Layouts{Workload: result.StateWorkload{MemoryBytes: 64 << 20},
			Rows: []result.LayoutRow{{Layout: "a", Status: result.OK, Accounts: 1 << 20,
				DiskBytes: figure.Known(float64(disk))}},
			Outlook: []result.LayoutOutlook{
				{
					Layout:      "a",
					Figure:      "device_reads_per_lookup",
					Accounts:    1e9,
					MemoryBytes: 64e9,
					PerAccount:  true,
					Value:       1,
				},
				{
					Layout:      "a",
					Figure:      "device_reads_per_lookup",
					Accounts:    1e9,
					MemoryBytes: 2 << 30,
					Value:       2,
				},
			}})

		if got := slices.ContainsFunc(in.outlook().Heads, func(h doc.Head) bool {
			return h.Unit == "64 B/account"
		}); got != want {
			t.Errorf("state of %d bytes: %+v", disk, in.outlook().Heads)
		}
	}
}

// TestTheWorkloadIsSaid: one contract, code, an access list and options are among what was asked.
func TestTheWorkloadIsSaid(t *testing.T) {
	in := Input{claims.Evidence{Layouts: &result.Layouts{
		Workload: result.StateWorkload{
			Accounts:      []uint64{1000},
			ContractSlots: 10_000,
			CodeBytes:     24_000,
			Reads:         50,
			Accesses:      "/tmp/list.slal",
		},
		Rows: []result.LayoutRow{{Overrides: map[string]string{"GroupDepth": "4"}},
			{Overrides: map[string]string{"GroupDepth": "8"}}},
	}}}
	got := strings.Join(in.workload(), "\n")
	for _, want := range []string{
		"Workload: 1k accounts, 10k slots of one contract",
		"24,000 bytes",
		"the blocks of list.slal",
		"Options that differ from the profile: GroupDepth=4,8.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}
