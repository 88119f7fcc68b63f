// Package watch reads what a running node tells of itself.
package watch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/explain/nodemetrics"
	"github.com/statelab/statelab/result"
)

// scrapeWithin bounds a request to a node.
const scrapeWithin = 10 * time.Second

// Node is what a node's metrics tell: of its endpoint, asked twice some seconds apart, or of two
// saved scrapes; nil if there are none.
func Node(
	ctx context.Context, from []string, seconds float64, tell result.EventFunc,
) (*nodemetrics.Node, error) {
	if len(from) == 0 {
		return nil, nil
	}

	began := time.Now()
	first, err := scrape(ctx, from[0])
	if err != nil {
		return nil, err
	}

	if len(from) == 1 {
		wait := time.NewTimer(time.Duration(seconds * float64(time.Second)))
		defer wait.Stop()
		tell(result.Event{Phase: "watching the node's metrics"})
		select {
		case <-wait.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}

	second, err := scrape(ctx, from[len(from)-1])
	if err != nil {
		return nil, err
	}

	if len(from) == 1 {
		seconds = time.Since(began).Seconds()
	}

	node, err := nodemetrics.Between(first, second, seconds)
	if err != nil {
		return nil, fmt.Errorf("--node-metrics %s: %w", strings.Join(from, ","), err)
	}

	return node, nil
}

// CheckNode notes what is wrong with where a node's metrics come from.
func CheckNode(from []string, seconds float64, m *setting.Mistakes) {
	switch n := len(from); {
	case n == 0:
	case !(seconds > 0):
		m.At("node-seconds", fmt.Sprint(seconds), "must be above 0 (example: 30)")
	case n == 1 && !isURL(from[0]):
		m.At("node-metrics", from[0], "one scrape has no rates; save another one some time "+
			"later, and give --node-metrics FIRST,SECOND --node-seconds N")
	case n > 2 || n == 2 && (isURL(from[0]) || isURL(from[1])):
		m.At("node-metrics", "", "give one address, or two files")
	}
}

// isURL tells an address from a file.
func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// scrape reads metrics from an address or a file.
func scrape(ctx context.Context, from string) (all map[string]float64, err error) {
	var in io.ReadCloser
	if isURL(from) {
		bounded, cancel := context.WithTimeout(ctx, scrapeWithin)
		defer cancel()
		request, err := http.NewRequestWithContext(bounded, http.MethodGet, from, nil)
		if err != nil {
			return nil, fmt.Errorf("--node-metrics: %w", err)
		}

		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, fmt.Errorf("--node-metrics: %w", err)
		}

		if in = answer.Body; answer.StatusCode != http.StatusOK {
			_ = in.Close() // nothing was read
			return nil, fmt.Errorf("--node-metrics %s: the node answers %s", from, answer.Status)
		}
	} else if in, err = os.Open(from); err != nil {
		return nil, fmt.Errorf("--node-metrics: %w", err)
	}

	defer in.Close() // read only
	if all, err = nodemetrics.Read(in); err != nil {
		return nil, fmt.Errorf("--node-metrics %s: %w", from, err)
	}

	return all, nil
}
