package watch

import (
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// Wanted is a process to watch: by its number, its name, or a database that it has open.
type Wanted struct {
	PID        int
	Name, Dir  string
	CacheBytes int64    // of its block cache; 0: from the files of its database
	OfGets     []string // flags that were given and are about Gets
	Options

	// Attached is called as soon as the process is watched; faults: its page faults instead of its Gets. What it returns hears of each
	// second.
	Attached func(faults bool) (func(result.Tick), error)
}

// Options say how a process is watched.
type Options struct {
	Seconds float64 // 0: until the context ends
	Share   float64 // of the time; 0: as much as costs the process 2 % of a processor
	Sizes   []int64 // caches to simulate besides the present one; nil: half, twice and four times
	Tick    func(result.Tick)
	Tell    result.Tell
}

// Phase is the name of the only phase of what was watched.
const Phase = "watch"

// Possible tells whether other processes can be watched. No measurement depends on it.
func Possible() host.Finding {
	f := host.Finding{Name: "statelab watch", State: "other processes can be watched", Verdict: host.OK}
	if wrong := failure.Of(possible()); wrong != nil {
		f.State = "other processes cannot be watched: " + wrong.Error()
		if wrong.Remedy != "" {
			f.State += " (" + wrong.Remedy + ")"
		}
	}
	return f
}
