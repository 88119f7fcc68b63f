package nodemetrics

import (
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

	later := strings.NewReplacer("state_miss 1000", "state_miss 4000", "node_miss 500",
		"node_miss 1500", "hit 9000", "hit 15000", "block_miss 1000",
		"block_miss 3000")
	second, err := Read(strings.NewReader(later.Replace(scrape)))
	if err != nil {
		t.Fatal(err)
	}

	n, err := Between(first, second, 10)
	if err != nil || n.GetsPerSecond != 400 || len(n.Sources) != 2 ||
		n.Sources[0].PerSecond != 300 || *n.HitRate != 0.75 || *n.BlockReadsPerSecond != 200 {
		t.Errorf("%+v, %v", n, err)
	}

	block := n.Block()
	got := strings.Join(block.Texts, " ")
	for _, row := range block.Table.Rows {
		got += "\n" + strings.Join(row.Cells, " ")
	}

	for _, want := range []string{"trie nodes 100 25.0", "together 400 100",
		"75.0% hits, 200 misses/s"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}

	if _, err := Between(second, first, 10); err == nil ||
		!strings.Contains(err.Error(), "wrong order") {
		t.Error(err)
	}

	if _, err := Between(map[string]float64{"other": 1}, map[string]float64{"other": 2},
		10); err == nil || !strings.Contains(err.Error(), "is this geth") {
		t.Error(err)
	}

	if _, err := Read(strings.NewReader("<html>")); err == nil {
		t.Error("a page is a scrape")
	}
}

// TestVersionsOfGeth: each version and scheme has names of its own, and those of the others are 0.
func TestVersionsOfGeth(t *testing.T) {
	for what, of := range map[string]struct {
		text string // {} is a count
		want float64
	}{
		"hash scheme": {"hashdb_memcache_clean_miss {}\npathdb_clean_node_miss " +
			"0\npathdb_clean_state_miss 0\n" +
			"state_snapshot_clean_account_miss 0\n", 3471},
		"hash scheme, nodes that are not found": {"hashdb_memcache_clean_miss " +
			"0\nhashdb_memcache_dirty_miss {}\n", 3471},
		"hash scheme before 1.13": {"trie_memcache_clean_miss " +
			"{}\ntrie_memcache_dirty_miss {}\n", 3471},
		"path scheme of 1.14 with its snapshot": {"pathdb_clean_miss " +
			"{}\nstate_snapshot_clean_account_miss {}\nstate_snapshot_clean_storage_miss {}\n",
			3 * 3471},
		"path scheme of 1.17": {"pathdb_clean_node_miss " +
			"{}\npathdb_clean_state_miss {}\nhashdb_memcache_clean_miss 0\n", 2 * 3471},
		"with labels": {
			"pathdb_clean_state_miss{instance=\"a:6060\",job=\"geth\"} {} 1700000000000\n",
			3471,
		},
	} {
		var scrapes []map[string]float64
		for _, count := range []string{"5", "34715"} {
			scrape, err := Read(strings.NewReader(strings.ReplaceAll(of.text, "{}", count)))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			scrapes = append(scrapes, scrape)
		}

		if n, err := Between(scrapes[0], scrapes[1], 10); err != nil || n.GetsPerSecond != of.want {
			t.Errorf("%s: %+v, %v, want %v", what, n, err, of.want)
		}
	}
}

func TestPagesThatDoNotTell(t *testing.T) {
	for what, of := range map[string]struct{ first, second, want string }{
		"reth": {"reth_db_table_pages{table=\"A\"} 1", "reth_db_table_pages{table=\"A\"} 2",
			"metrics of reth"},
		"Besu": {"besu_blockchain_difficulty_total 1", "besu_blockchain_difficulty_total 2",
			"metrics of Besu"},
		"two nodes": {"pathdb_clean_state_miss{i=\"a\"} 1\npathdb_clean_state_miss{i=\"b\"} 1", "",
			"one node at a time"},
		"unknown counters": {"pathdb_clean_state_miss 0\neth_db_chaindata_cache_block_hit 5",
			"pathdb_clean_state_miss 0\neth_db_chaindata_cache_block_hit 9",
			"no metric that counts lookups moved"},
	} {
		first, err := Read(strings.NewReader(of.first))
		if err == nil {
			second, _ := Read(strings.NewReader(of.second))
			_, err = Between(first, second, 1)
		}

		if err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: %v, want %q", what, err, of.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(scrape)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = Read(strings.NewReader(text)) })
}
