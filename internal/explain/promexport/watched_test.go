package promexport

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/statelab/statelab/result"
)

// TestUnknownCountsAreNotServed: what a process does not have is left out, and is no 0.
func TestUnknownCountsAreNotServed(t *testing.T) {
	live := NewLive("watch")
	for name := range scraped(t, live) {
		if strings.HasPrefix(name, ofWatch) {
			t.Errorf("%s is served before anything was counted", name)
		}
	}

	live.Watched.Observe(result.WatchCounts{Process: "geth", Database: "/data/chain"})
	families := scraped(t, live)
	for _, m := range []metric{watchGets, watchReads, watchFaults, watchCache, watchMemory,
		watchMemoryLimit} {
		if families[m.name] != nil {
			t.Errorf("%s is served, and is not known", m.name)
		}
	}

	if families[watchSeconds.name] == nil || families[watchInfo.name] == nil {
		t.Error("the watch itself is not served")
	}
}

// TestAlertsAreOfWhatIsServed: a rule of a metric that nobody serves never fires, and its panel
// stays empty. That each rule fires, promtool tests with the series of alerts_test.yml.
func TestAlertsAreOfWhatIsServed(t *testing.T) {
	served, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}

	const folder = "../../../examples/grafana/"
	rules, err := os.ReadFile(folder + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}

	tested, err := os.ReadFile(folder + "alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}

	dashboard, err := os.ReadFile(folder + "watch.json")
	if err != nil {
		t.Fatal(err)
	}

	asked := append(rules, dashboard...)
	names := regexp.MustCompile(`statelab_[a-z_]+`)
	for _, name := range names.FindAllString(string(asked), -1) {
		if !strings.Contains(string(served), name+" (") {
			t.Errorf("alerts.yml or watch.json has %s, which is not served", name)
		}
	}

	alerts := regexp.MustCompile(`alert: (\w+)`)
	for _, found := range alerts.FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(tested), "alertname: "+found[1]+"\n") {
			t.Errorf("no test makes %s fire", found[1])
		}
	}
}
