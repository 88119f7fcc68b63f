package watched

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TestOpenFilesAreNamed: a limit of open files that costs reads is in the answer, on the page and
// in the JSON.
func TestOpenFilesAreNamed(t *testing.T) {
	w := Watched{Watch: &result.Watch{
		Process: result.WatchedProcess{Name: "node", PID: 7, Engine: "rocksdb"},
		Gets:    100_000,
		Watched: 10,
		Seconds: 10,
		Cache:   result.WatchedCache{Bytes: 1 << 20, Source: "LOG"},
		Simulated: &result.WatchSimulated{
			CacheBytes:       1 << 20,
			BlockReadsPerGet: 4.71,
			Low:              4.71,
			High:             4.71,
			Seen:             4.7,
		},
		OpenFiles: &result.WatchedOpenFiles{
			Limit:          64,
			Source:         "LOG",
			Option:         "max_open_files",
			Tables:         245,
			Enough:         331,
			OpensSeen:      0.93,
			OpensSimulated: figure.Known(0.94),
			AllOpen: &result.WatchSimulated{
				CacheBytes:       1 << 20,
				BlockReadsPerGet: 0.96,
				Low:              0.96,
				High:             0.96,
				Seen:             4.7,
			},
		},
	}}
	for f, value := range map[figure.Figure]float64{
		figure.BlockReadsPerGet:     4.7,
		figure.GetsPerSecond:        10_000,
		figure.TableOpensPerGet:     0.935,
		figure.TableOpenReadsPerGet: 3.74,
		figure.InFlight:             0.8,
		figure.ReadingShare:         0.9,
	} {
		w.Record(f, value)
	}

	const raise = "Raise max_open_files from 64 to at least 331, so that all 245 tables stay " +
		"open: 4.70 -> 0.960 block reads per Get with a cache of 1.00 MiB."
	if answer := w.Answer(); !strings.HasPrefix(answer,
		"The limit of open files is too low: Gets ") || !strings.Contains(answer, raise) {
		t.Error(answer)
	}

	const opens = "A Get opened 0.935 tables, which took 3.74 of its block reads: the limit of " +
		"open files, max_open_files=64 (LOG), does not keep 245 tables open, and 331 does. For " +
		"the second half of the Gets, a model of the open tables with that limit has 0.940; " +
		"observed: 0.930."
	if got := w.opens(); got != opens {
		t.Error(got)
	}

	// Without a simulated cache, what was read to open tables tells as much.
	unknown := *w.Watch
	unknown.Cache, unknown.Simulated = result.WatchedCache{}, nil
	unknown.OpenFiles = &result.WatchedOpenFiles{Option: "max_open_files", Tables: 245, Enough: 331}
	const alone = "Raise max_open_files to at least 331, so that all 245 tables stay open: 4.70 " +
		"-> 0.960 block reads per Get."
	if answer := (Watched{Watch: &unknown}).Answer(); !strings.Contains(answer, alone) {
		t.Error(answer)
	}

	text, err := json.Marshal(w.Watch)
	if err != nil {
		t.Fatal(err)
	}

	var again result.Watch
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(*w.OpenFiles, *again.OpenFiles, cmp.Comparer(
		func(a, b figure.Value) bool { return a.OrZero() == b.OrZero() })); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}
