package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/model/gas"
	"github.com/statelab/statelab/result"
)

// agedList writes the traces of 300 blocks: each changes an account that all change, and reads one
// slot of it; and changes one that no other block knows.
func agedList(t *testing.T, dir string) string {
	t.Helper()
	const always = "0x00000000000000000000000000000000000000aa"
	if err := os.Mkdir(filepath.Join(dir, "traces"), 0o755); err != nil {
		t.Fatal(err)
	}

	for n := 1; n <= 300; n++ {
		once := fmt.Sprintf("0x%040x", 0x1000+n)
		name := filepath.Join(dir, "traces", fmt.Sprint(n))
		write(t, name+".json",
			fmt.Sprintf(`[{"result": {`+
				`%q: {"balance": "0x%x", "storage": {"0x%064x": "0x%064x"}}, `+
				`%q: {"balance": "0x1"}}}]`, always, n, 1, 7, once))
		write(t, name+".diff.json",
			fmt.Sprintf(`[{"result": {`+
				`"pre": {%q: {"balance": "0x%x"}, %[3]q: {"balance": "0x1"}}, `+
				`"post": {%[1]q: {"balance": "0x%x"}, %[3]q: {"balance": "0x2"}}}}]`,
				always, n, once, n+1))
	}

	list := filepath.Join(dir, "list.slal")
	must(t, "accesses", "import", filepath.Join(dir, "traces"), "--out", list)
	return list
}

// TestPricesByAge: of the accesses of a list whose ages are known by hand, shares and prices are by
// age; what all blocks touch is in the cache, and of what none has touched a part is read.
func TestPricesByAge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := agedList(t, dir)
	for _, text := range []string{"66.7 %; of its writes, 50.0 % written in them",
		"touched in the 8 blocks before", "touched in the 256 blocks before"} {
		if o := must(t, "accesses", "info", list); !o.says(text) {
			t.Errorf("%q is not in:\n%s", text, o.stdout)
		}
	}

	write(t, filepath.Join(dir, "disk.json"), `{"schema": "statelab.hardware/1", "name": "nvme",
"points": [{"in_flight": 1, "reads_per_second": 12500, "mean_ns": 80000}]}`)
	out := filepath.Join(dir, "P")
	said := must(t, "price", "--layout", "flat-pebble", "--accounts", "20k", "--contract-slots",
		"100", "--accesses", list,
		"--at", "30k", "--contract-at", "100", "--reads", "500", "--updates", "20",
		"--update-blocks", "2",
		"--memory", "0", "--hardware", filepath.Join(dir, "disk.json"), "--out", out).stdout

	price, err := result.ReadPrice(out)
	if err != nil {
		t.Fatal(err)
	}

	rows := map[string]map[string]result.PriceRow{}
	for _, r := range price.Rows {
		if !gas.IsAged(r.Parameter) {
			continue
		}

		if rows[r.Layout] == nil {
			rows[r.Layout] = map[string]result.PriceRow{}
		}

		rows[r.Layout][r.Parameter] = r
		want := r.CPUNanos.OrZero() + 80_000*r.Reads.Value
		if math.Abs(r.AloneNanos.Value-want) > 1 || math.Abs(r.AloneGas.Value-want/10) > 1 {
			t.Errorf("%s of %s: %+v, want %v ns alone", r.Parameter, r.Layout, r, want)
		}
	}

	shares := map[string]float64{
		gas.RecurringAccount:       .5,
		"LAPSED_ACCOUNT_ACCESS":    .5,
		gas.RecurringStorage:       1,
		"REWRITTEN_ACCOUNT_ACCESS": .5,
		"UNWRITTEN_ACCOUNT_ACCESS": .5,
	}

	for layout, of := range rows {
		for name, want := range shares {
			if r := of[name]; r.Share.OrZero() != want {
				t.Errorf("%s of %s: %+v, want a share of %v", name, layout, r, want)
			}
		}

		recurring, lapsed, surcharge := of[gas.RecurringAccount], of["LAPSED_ACCOUNT_ACCESS"],
			of["INACTIVE_ACCOUNT_WRITE_SURCHARGE"]
		if recurring.Reads.Value > .02 || lapsed.Reads.Value < .1 || lapsed.Reads.Value > 3 {
			t.Errorf("%s: what all blocks touch takes %+v reads, what none has %+v", layout,
				recurring.Reads, lapsed.Reads)
		}

		want := lapsed.AloneGas.Value - recurring.AloneGas.Value
		if math.Abs(surcharge.AloneGas.Value-want) > 1 || want <= 0 {
			t.Errorf("%s: a surcharge of %+v, want %v", layout, surcharge.AloneGas, want)
		}

		if len(of) != len(shares)+1 {
			t.Errorf("%s: %d rows", layout, len(of))
		}
	}

	if len(rows) != 1 || !strings.Contains(said, "RECURRING_ACCOUNT_ACCESS, proposed 100 gas") ||
		!strings.Contains(said, "INACTIVE_ACCOUNT_WRITE_SURCHARGE") {
		t.Errorf("%d layouts\n%s", len(rows), said)
	}

	refused(t,
		statelab(t, "price", "--accesses", filepath.Join(dir, "disk.json"), "--out",
			filepath.Join(dir, "Q")), exitFailed, "--accesses")
}
