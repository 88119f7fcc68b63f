package nodemetrics

import (
	"bytes"
	"strings"
	"testing"
)

const scrape = `# TYPE pathdb_clean_state_miss counter
pathdb_clean_state_miss 1000

# TYPE pathdb_clean_node_miss counter
pathdb_clean_node_miss 500

# TYPE chain_mgasps summary
chain_mgasps {quantile="0.5"} 12

eth_db_chaindata_cache_block_hit 9000
eth_db_chaindata_cache_block_miss 1000
`

func TestNode(t *testing.T) {
	first, err := Read(strings.NewReader(scrape))
	if err != nil || len(first) != 4 {
		t.Fatalf("%v, %v", first, err)
	}
	later := strings.NewReplacer("state_miss 1000", "state_miss 4000", "node_miss 500", "node_miss 1500", "hit 9000", "hit 15000", "block_miss 1000",
		"block_miss 3000")
	second, err := Read(strings.NewReader(later.Replace(scrape)))
	if err != nil {
		t.Fatal(err)
	}
	n, err := Between(first, second, 10)
	if err != nil || n.GetsPerSecond != 400 || len(n.Sources) != 2 || n.Sources[0].PerSecond != 300 || *n.HitRate != 0.75 || *n.BlockReadsPerSecond != 200 {
		t.Errorf("%+v, %v", n, err)
	}
	var out bytes.Buffer
	n.Text(&out)
	for _, want := range []string{"trie nodes                                    100/s  25.0%", "together                                      400/s",
		"75.0% hits, 200 misses/s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if _, err := Between(second, first, 10); err == nil || !strings.Contains(err.Error(), "wrong order") {
		t.Error(err)
	}
	if _, err := Between(map[string]float64{"other": 1}, map[string]float64{"other": 2}, 10); err == nil || !strings.Contains(err.Error(), "path scheme") {
		t.Error(err)
	}
	if _, err := Read(strings.NewReader("<html>")); err == nil {
		t.Error("a page is a scrape")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(scrape)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = Read(strings.NewReader(text)) })
}
