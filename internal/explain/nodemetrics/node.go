// Package nodemetrics reads what a running node tells of its lookups: how many Gets of the
// database it makes in a second, what for, and what its block cache served.
//
// Non-goals: collecting over time (Prometheus does), clients whose metrics count no Gets.
package nodemetrics

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result/figure"
)

// Node is what a node's own metrics tell of its lookups.
type Node struct {
	Seconds float64  `json:"seconds"` // between the two scrapes
	Sources []Source `json:"sources"`
	// BlockReadsPerSecond and HitRate are of the block cache: compactions and iterators
	// use it, too.
	BlockReadsPerSecond *float64 `json:"block_cache_misses_per_second,omitempty"`
	HitRate             *float64 `json:"block_cache_hit_rate,omitempty"`
	// DatabaseBytes is what the files of the database take at the second scrape; 0: not known.
	DatabaseBytes int64 `json:"database_bytes,omitempty"`
	// NotChecked are sentences on what scrapes cannot show of their completeness.
	NotChecked []string `json:"not_checked,omitempty"`

	GetsPerSecond float64 `json:"-"`
}

func (n *Node) members() figure.Members {
	return figure.Members{figure.GetsPerSecond: &n.GetsPerSecond}
}

// MarshalJSON writes the figures by their keys.
func (n Node) MarshalJSON() ([]byte, error) {
	type plain Node

	return n.members().Marshal(plain(n))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Node) UnmarshalJSON(text []byte) error {
	type plain Node

	return n.members().Unmarshal(text, (*plain)(n))
}

// Source is where Gets of the database come from.
type Source struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"-"` // Gets
}

func (s *Source) members() figure.Members {
	return figure.Members{figure.GetsPerSecond: &s.PerSecond}
}

// MarshalJSON writes the figures by their keys.
func (s Source) MarshalJSON() ([]byte, error) {
	type plain Source

	return s.members().Marshal(plain(s))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Source) UnmarshalJSON(text []byte) error {
	type plain Source

	return s.members().Unmarshal(text, (*plain)(s))
}

// sources are lookups that no cache of geth's own served: each is a Get of the database. Names are
// as its Prometheus exporter writes them, of all versions since 1.10: a metric of a scheme that is
// not in use is 0. Where a list has several metrics, they count the same lookups in different
// versions or at different places (a miss of the clean cache is counted once the node was found, a
// miss of the dirty one before): the largest is taken. Sources: triedb/hashdb/database.go,
// triedb/pathdb/metrics.go, core/state/snapshot/disklayer.go, core/blockchain.go of go-ethereum.
var sources = []struct {
	name    string
	metrics [][]string
}{
	{"accounts and slots of the flat state", [][]string{
		{"pathdb_clean_state_miss"},
		{"state_snapshot_clean_account_miss"}, {"state_snapshot_clean_storage_miss"},
	}},
	{"trie nodes", [][]string{
		{"pathdb_clean_node_miss", "pathdb_clean_miss"},
		{"hashdb_memcache_clean_miss", "hashdb_memcache_dirty_miss", "trie_memcache_clean_miss",
			"trie_memcache_dirty_miss"},
	}},
	{"contract code",
		[][]string{
			{"chain_code_reads_cache_process_miss"},
			{"chain_code_reads_cache_prefetch_miss"},
		}},
}

// others are clients whose metrics count no lookups that this package knows, by how their metrics
// begin.
var others = []struct{ prefix, client string }{
	{"reth_", "reth"},
	{"besu_", "Besu"},
	{"ethereum_blockchain_", "Besu"},
	{"nethermind_", "Nethermind"},
	{"erigon_", "Erigon"},
	{"cometbft_", "a Cosmos node"},
	{"tendermint_", "a Cosmos node"},
}

const (
	blockHits   = "eth_db_chaindata_cache_block_hit"
	blockMisses = "eth_db_chaindata_cache_block_miss"
	// diskSize is a gauge of ethdb/pebble.
	diskSize = "eth_db_chaindata_disk_size"
)

// maxMetricsBytes bounds a scrape: geth's has 200 KB.
const maxMetricsBytes = 16 << 20

// noCounter finds the labels of quantiles and buckets.
var noCounter = regexp.MustCompile(`[{,]\s*(quantile|le)=`)

// Read reads a scrape in Prometheus' text format, without quantiles and buckets. Labels do not
// matter. A line that is not of the format is an error if others are, and so is a metric that is
// announced and has no value.
func Read(r io.Reader) (map[string]float64, error) {
	all := map[string]float64{}
	announced := map[string]bool{}
	var wrong error // the first line that is no metric
	lines := bufio.NewScanner(io.LimitReader(r, maxMetricsBytes))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if fields := strings.Fields(line); len(fields) == 4 && fields[0] == "#" &&
			fields[1] == "TYPE" {
			announced[fields[2]] = true
		}

		if line == "" || line[0] == '#' {
			continue
		}

		bad := fmt.Errorf("line %d (%.60q) is not a metric: lines are missing, or were put "+
			"together; scrape again", n, line)
		at := strings.IndexAny(line, " \t{")
		if at <= 0 {
			wrong = cmp.Or(wrong, bad)
			continue
		}

		name, rest := line[:at], strings.TrimSpace(line[at:])
		if strings.HasPrefix(rest, "{") {
			end := strings.LastIndex(rest, "}")
			if end < 0 || noCounter.MatchString(rest[:end]) {
				continue
			}
			rest = rest[end+1:]
		}

		fields := strings.Fields(rest)
		if len(fields) == 0 || len(fields) > 2 { // a value, and perhaps its time
			wrong = cmp.Or(wrong, bad)
			continue
		}

		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			wrong = cmp.Or(wrong, bad)
			continue
		}

		if _, twice := all[name]; twice && counts(name) {
			return nil, fmt.Errorf("%s is there several times, with other labels: scrape one "+
				"node at a time", name)
		}

		all[name] = v
	}

	if err := lines.Err(); err != nil {
		return nil, err
	}

	if len(all) == 0 {
		return nil, errors.New("no metrics in Prometheus' text format: geth serves them at " +
			"http://127.0.0.1:6060/debug/metrics/prometheus if it runs with --metrics")
	}

	if wrong != nil {
		return nil, wrong
	}

	for _, name := range slices.Sorted(maps.Keys(announced)) {
		if _, has := all[name]; !has && counts(name) {
			return nil, fmt.Errorf("%s is announced (# TYPE) and has no value: lines are missing; "+
				"scrape again", name)
		}
	}

	return all, nil
}

// counts reports whether name is a metric that is read here.
func counts(name string) bool {
	if name == blockHits || name == blockMisses {
		return true
	}

	for _, s := range sources {
		for _, same := range s.metrics {
			if slices.Contains(same, name) {
				return true
			}
		}
	}
	return false
}

// Between is what happened between two scrapes of one node.
func Between(first, second map[string]float64, seconds float64) (*Node, error) {
	n := &Node{Seconds: seconds, NotChecked: notChecked(first),
		DatabaseBytes: int64(second[diskSize])}
	for _, s := range sources {
		gets, known := 0.0, false
		for _, same := range s.metrics {
			maximum := 0.0
			for _, name := range same {
				moved, has, err := between(first, second, name)
				if err != nil {
					return nil, err
				}
				maximum, known = max(maximum, moved), known || has
			}

			gets += maximum
		}

		if known {
			n.Sources = append(n.Sources, Source{s.name, gets / seconds})
			n.GetsPerSecond += gets / seconds
		}
	}

	if len(n.Sources) == 0 {
		return nil, notGeth(second)
	}

	hits, _, err := between(first, second, blockHits)
	misses, _, err2 := between(first, second, blockMisses)
	if err = cmp.Or(err, err2); err != nil {
		return nil, err
	}

	if hits+misses > 0 {
		rate, reads := hits/(hits+misses), misses/seconds
		n.HitRate, n.BlockReadsPerSecond = &rate, &reads
	}

	if n.GetsPerSecond == 0 && hits+misses > 0 {
		return nil, fmt.Errorf("the block cache was asked %.0f times between the scrapes, but no "+
			"metric that counts lookups moved: this version of the node counts them under names "+
			"that are not known here; leave --node-metrics out", hits+misses)
	}

	return n, nil
}

// between is how far a counter moved; has: it is in both scrapes.
func between(first, second map[string]float64, name string) (moved float64, has bool, err error) {
	a, inFirst := first[name]
	b, inSecond := second[name]
	switch {
	case !inFirst && !inSecond:
		return 0, false, nil
	case inFirst != inSecond:
		return 0, false, fmt.Errorf("%s is in one of the two scrapes alone: the other is "+
			"incomplete, or was made while the node started; scrape both again", name)
	}

	if b < a {
		return 0, false, fmt.Errorf("%s went from %v to %v: the scrapes are in the wrong order, "+
			"or the node was restarted between them", name, a, b)
	}

	return b - a, true, nil
}

// notChecked says what scrapes cannot show: whether all metrics are there.
func notChecked(scrape map[string]float64) []string {
	var missing []string
	for _, s := range sources {
		for _, same := range s.metrics {
			if !slices.ContainsFunc(same, func(name string) bool {
				_, has := scrape[name]
				return has
			}) {
				missing = append(missing, same[0])
			}
		}
	}

	text := "a scrape does not count its metrics, and their order says nothing: one that is " +
		"missing in both scrapes counts as no lookup"
	if len(missing) > 0 {
		text += " (not there, since this version or scheme has none or its lines are missing: " +
			strings.Join(missing, ", ") + ")"
	}

	return []string{text}
}

// notGeth says whose metrics a scrape has instead of geth's.
func notGeth(scrape map[string]float64) error {
	for _, other := range others {
		for name := range scrape {
			if strings.HasPrefix(name, other.prefix) {
				return fmt.Errorf("these are metrics of %s, which do not count lookups of the "+
					"database (%s): only geth's do; leave --node-metrics out",
					other.client, name)
			}
		}
	}

	return errors.New("none of the metrics that count lookups is there (such as " +
		"pathdb_clean_state_miss or hashdb_memcache_clean_miss): " +
		"is this geth, or a client made from it, with --metrics?")
}

// Block says where the Gets come from; nothing of nil.
func (n *Node) Block() (b doc.Block) {
	if n == nil {
		return b
	}

	rows := append(slices.Clone(n.Sources), Source{Name: "together", PerSecond: n.GetsPerSecond})
	b.Title = "Gets of the node, by its own metrics over " + unit.Nanos(n.Seconds*1e9)
	b.Table = doc.TableOf(rows, nil,
		doc.Words("what for", func(s Source) string { return s.Name }),
		doc.Figure("Gets", "per s", doc.Digits, func(s Source) float64 {
			return math.Floor(s.PerSecond + 0.5)
		}),
		doc.Optional("share", "%", nil, func(s Source) *float64 {
			return doc.When(n.GetsPerSecond > 0, 100*s.PerSecond/n.GetsPerSecond)
		}))

	b.Texts = []string{"Not counted by its metrics: headers, bodies, receipts, history."}
	for _, sentence := range n.NotChecked {
		b.Texts = append(b.Texts, "Not checked: "+sentence+".")
	}

	if n.HitRate != nil {
		b.Texts = append(b.Texts,
			fmt.Sprintf("Block cache: %.1f%% hits, %s misses/s, with those of compactions.",
				100**n.HitRate, unit.Count(int64(*n.BlockReadsPerSecond+0.5))))
	}

	return b
}
