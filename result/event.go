package result

import "github.com/statelab/statelab/engine"

// Event is progress that a runner reports to its planner while it works, a JSON
// object a line.
type Event struct {
	Phase string `json:"phase"`
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"` // 0: not known
	Unit  string `json:"unit"`  // Gets, keys, versions, ...
	Note  string `json:"note,omitempty"`
	Tick  *Tick  `json:"tick,omitempty"` // the line just written to series.jsonl
	// Failed is why the runner ends without a result.
	Failed *engine.Failure `json:"failed,omitempty"`
}

// Tell receives events; it must be quick and safe for concurrent use.
type Tell func(Event)
