// Package nodemetrics reads what a running node tells of its lookups: how many Gets of the
// database it makes in a second, what for, and what its block cache served.
//
// Non-goals: collecting over time (Prometheus does), clients whose metrics count no Gets.
package nodemetrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
)

// Node is what a node's own metrics tell of its lookups. Names are those of geth 1.17
// (core/blockchain.go, triedb/pathdb/metrics.go, ethdb/pebble/pebble.go), as its Prometheus
// exporter writes them.
type Node struct {
	Seconds       float64  `json:"seconds"` // between the two scrapes
	GetsPerSecond float64  `json:"gets_per_second"`
	Sources       []Source `json:"sources"`
	// BlockReadsPerSecond and HitRate are of the block cache: compactions and iterators
	// use it, too.
	BlockReadsPerSecond *float64 `json:"block_cache_misses_per_second,omitempty"`
	HitRate             *float64 `json:"block_cache_hit_rate,omitempty"`
}

// Source is where Gets of the database come from.
type Source struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"gets_per_second"`
}

// sources are lookups that no cache of geth's own served: each is a Get of the database.
var sources = []struct {
	name    string
	metrics []string
}{
	{"accounts and slots of the flat state", []string{"pathdb_clean_state_miss"}},
	{"trie nodes", []string{"pathdb_clean_node_miss"}},
	{"contract code", []string{"chain_code_reads_cache_process_miss", "chain_code_reads_cache_prefetch_miss"}},
}

const (
	blockHits   = "eth_db_chaindata_cache_block_hit"
	blockMisses = "eth_db_chaindata_cache_block_miss"
)

// maxMetricsBytes bounds a scrape: geth's has 200 KB.
const maxMetricsBytes = 16 << 20

// Read reads a scrape in Prometheus' text format: metrics without labels.
func Read(r io.Reader) (map[string]float64, error) {
	all := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(r, maxMetricsBytes))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || strings.ContainsAny(lines.Text(), "{}") {
			continue
		}
		if v, err := strconv.ParseFloat(fields[1], 64); err == nil {
			all[fields[0]] = v
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no metrics in Prometheus' text format: geth serves them at http://127.0.0.1:6060/debug/metrics/prometheus if it runs " +
			"with --metrics")
	}
	return all, nil
}

// Between is what happened between two scrapes of one node.
func Between(first, second map[string]float64, seconds float64) (*Node, error) {
	n := &Node{Seconds: seconds}
	var known []string
	for _, s := range sources {
		gets := 0.0
		any := false
		for _, name := range s.metrics {
			known = append(known, name)
			a, inFirst := first[name]
			b, inSecond := second[name]
			if !inFirst || !inSecond {
				continue
			}
			if b < a {
				return nil, fmt.Errorf("%s went from %v to %v: the scrapes are in the wrong order, or the node was restarted between them", name, a, b)
			}
			gets, any = gets+b-a, true
		}
		if any {
			n.Sources = append(n.Sources, Source{s.name, gets / seconds})
			n.GetsPerSecond += gets / seconds
		}
	}
	if len(n.Sources) == 0 {
		return nil, fmt.Errorf("none of the metrics that count lookups is there (%s): is this geth with the path scheme?", strings.Join(known, ", "))
	}
	hits, misses := second[blockHits]-first[blockHits], second[blockMisses]-first[blockMisses]
	if hits >= 0 && misses >= 0 && hits+misses > 0 {
		rate, reads := hits/(hits+misses), misses/seconds
		n.HitRate, n.BlockReadsPerSecond = &rate, &reads
	}
	return n, nil
}

// Text says where the Gets come from.
func (n *Node) Text(out io.Writer) {
	if n == nil {
		return
	}
	fmt.Fprintf(out, "\nGets of the node, by its own metrics over %s\n", unit.Nanos(n.Seconds*1e9))
	for _, s := range n.Sources {
		share := 0.0
		if n.GetsPerSecond > 0 {
			share = 100 * s.PerSecond / n.GetsPerSecond
		}
		fmt.Fprintf(out, "  %-38s %10s/s %5.1f%%\n", s.Name, unit.Count(int64(s.PerSecond+0.5)), share)
	}
	fmt.Fprintf(out, "  %-38s %10s/s\n", "together", unit.Count(int64(n.GetsPerSecond+0.5)))
	if n.HitRate != nil {
		fmt.Fprintf(out, "  block cache: %.1f%% hits, %s misses/s, with those of compactions\n", 100**n.HitRate, unit.Count(int64(*n.BlockReadsPerSecond+0.5)))
	}
}
