package advise

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
)

// Reason is one ground for the recommendation, or a doubt about it.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// reasons are ordered by what an operator can act on.
func (e *Evidence) reasons(v verdict, a Advice) []Reason {
	disk := e.disk(a)
	if e.diskAsked() {
		disk = "" // the answer says it
	}

	return slices.DeleteFunc([]Reason{
		{"shape", e.shape(a)},
		{"memtables", e.memtables(a)},
		{"no_filters", e.noFilters()},
		{"disk", disk},
		{"latency", e.latency(a)},
		{"one_by_one", e.oneByOne(a)},
		{"handles", e.handles(a)},
		{"unused_filters", e.unusedFilters(a)},
		{"level0", e.levelZero()},
		{"page_cache", e.pageCache(a)},
		{"whole", e.whole(v)},
		{"geth_limit", e.gethLimit(a)},
		{"no_flag", e.noFlag()},
		{"node_config", e.unreadConfig()},
		{"not_watched", e.unwatched()},
		{"verified", e.verified()},
		{"model", e.model()},
	}, func(r Reason) bool { return r.Text == "" })
}

// compares tells whether there is a present cache besides the recommended one.
func (a Advice) compares() bool { return !a.Recommendation.Keep && a.Now.CacheBytes > 0 }

func (e *Evidence) model() string {
	if l := e.Curve.List; l != nil && l.KeyScheme == "" {
		return fmt.Sprintf("worked out for the Gets of the trace %s in their order: %s Gets warm "+
			"the cache, then %s count; they ask for %s of blocks in all, and a "+
			"cache of a node that has run for longer than the trace holds more of them", l.Name,
			unit.Count(l.WarmupGets), unit.Count(l.Gets), size(l.Bytes))
	} else if l != nil {
		return fmt.Sprintf("worked out for the blocks of %s, whose %s keys are asked for in "+
			"order: %s Gets warm the cache, then %s count; they ask for %s of "+
			"blocks in all, and a cache of a node that has run for longer than the list holds "+
			"more of them", l.Name, l.KeyScheme, unit.Count(l.WarmupGets),
			unit.Count(l.Gets), size(l.Bytes))
	}

	source := "predicted from the sizes of its levels"
	if n := e.Curve.TracedGets; n > 0 {
		source = fmt.Sprintf("worked out from the database's own filters and indexes for %s Gets",
			unit.Count(uint64(n)))
	}

	return source + ", uniformly random and in steady state: Gets that favour some keys read less"
}

func (e *Evidence) shape(a Advice) string {
	i := a.Inflection
	first := "filters and top indexes take"
	if filterBytes(e.Database.Levels) == 0 {
		first = "no filters are consulted; top indexes take"
	}

	then := "a Get then reads %s data blocks, which no cache much smaller than the database saves"
	if e.Curve.List != nil {
		then = "the Gets " + e.Curve.List.whose() + " access few blocks, repeatedly: compulsory " +
			"misses remain, %s blocks per Get even with an unlimited cache"
	}

	return fmt.Sprintf("%s %s of a cache (IP1), with all indexes %s (IP2); "+then,
		first, size(i.IP1.CacheBytes), size(i.IP2.CacheBytes), perGet(e.Curve.Floor))
}

func (e *Evidence) memtables(a Advice) string {
	m := e.Settings.MemTables(e.Writes)
	if m.Live == 0 {
		return ""
	}

	then := a.Then
	text := fmt.Sprintf("memtables are charged to the block cache: a node that writes keeps %d "+
		"of %s, so %s of the %s hold blocks",
		m.Live, size(m.Each(then.CacheBytes)), size(then.BlockCacheBytes), size(then.CacheBytes))

	if rest, known := then.AtRest.Number(); known && rest < 0.99*then.BlockReadsPerGet {
		text += fmt.Sprintf("; while it writes nothing a Get costs %s", perGet(rest))
	}

	if stop := int64(e.Settings.StopMemTables); stop*m.Each(then.CacheBytes) >= then.CacheBytes {
		text += fmt.Sprintf("; in a write stall %d of them leave nothing", stop)
	}

	if e.Writes.BytesPerSecond > 0 {
		text += fmt.Sprintf("; one fills in %s at %s/s",
			seconds(float64(m.Each(then.CacheBytes))/e.Writes.BytesPerSecond),
			size(int64(e.Writes.BytesPerSecond)))
	}

	return text
}

func (e *Evidence) noFilters() string {
	with := e.Curve.WithFilters
	if with == nil {
		return ""
	}
	return fmt.Sprintf("levels above the last have no filters, so every Get searches them all: "+
		"with filters of 10 bits a key a Get would need about %s block "+
		"reads at a cache of %s; set FilterPolicy and compact",
		reads(*with), size(with.CacheBytes))
}

// diskAsked tells whether the disk belongs to the answer: the operator has said how much it must
// give, or it was probed in vain.
func (e *Evidence) diskAsked() bool { return e.Limits.GetsPerSecond > 0 || e.Disk.Failed }

func (e *Evidence) disk(a Advice) string {
	if len(e.Disk.Points) == 0 {
		if e.Disk.Absent == "" {
			return ""
		}
		return "whether the disk is the limit cannot be told: " + e.Disk.Absent
	}

	if e.Limits.GetsPerSecond == 0 {
		text := fmt.Sprintf("the disk gives %s reads/s: enough for %s Gets/s",
			unit.ShortCount(e.Disk.Most().ReadsPerSecond), e.fed(a.Then))
		if a.compares() {
			text += ", with the present cache " + e.fed(a.Now)
		}

		return text + "; give --gets-per-second, or --node-metrics for geth, to find out whether " +
			"it is the limit"
	}

	at := "at " + unit.ShortCount(e.Limits.GetsPerSecond) + " Gets/s, "
	then := fmt.Sprintf("with %s it %s", size(a.Then.CacheBytes),
		e.Disk.CapacityText(a.Then.BlockReadsPerSecond.OrZero()))
	now := "with the present cache it " + e.Disk.CapacityText(a.Now.BlockReadsPerSecond.OrZero())
	switch {
	case a.Recommendation.Keep:
		return at + now
	case a.compares():
		return at + now + "; " + then
	}

	return at + then
}

// fed is how many Gets a second the disk feeds.
func (e *Evidence) fed(s State) string {
	if s.BlockReadsPerGet < 0.001 {
		return "any number of"
	}
	return unit.ShortCount(e.Disk.Most().ReadsPerSecond / s.BlockReadsPerGet)
}

func (e *Evidence) latency(a Advice) string {
	goal := e.Limits.LatencyGoal
	if goal == 0 || len(e.Disk.Points) == 0 {
		return ""
	}

	p := e.Disk.Feeding(a.Then.BlockReadsPerSecond.OrZero())
	say := func(s State) string {
		met := "misses"
		if time.Duration(s.DeviceNanosPerGet) <= goal {
			met = "meets"
		}

		return fmt.Sprintf("%s x %s = %s %s", reads(s.Place),
			unit.Nanos(float64(s.DeviceNanosPerGet)/math.Max(s.BlockReadsPerGet, 1e-3)),
			unit.Nanos(float64(s.DeviceNanosPerGet)), met)
	}

	text := fmt.Sprintf("a Get of %s the goal of %s", say(a.Then), unit.Nanos(float64(goal)))
	if a.compares() {
		text += fmt.Sprintf("; with the present cache %s it", say(a.Now))
	}

	return text + fmt.Sprintf(" (device time, %d in flight, p99 of one read %s)", p.InFlight,
		unit.Nanos(float64(p.P99Nanos)))
}

// oneByOne is the speed of a client that waits for each Get, as block execution
// does.
func (e *Evidence) oneByOne(a Advice) string {
	if len(e.Disk.Points) == 0 || a.Then.BlockReadsPerGet < 0.01 {
		return ""
	}

	one := e.Disk.Points[0]
	if one.InFlight != 1 {
		return ""
	}

	rate := func(s State) string {
		return unit.ShortCount(1e9 / (one.MeanNanos * s.BlockReadsPerGet))
	}
	text := fmt.Sprintf("at queue depth 1 (%s per read), throughput is at most %s Gets/s",
		unit.Nanos(one.MeanNanos), rate(a.Then))
	if a.compares() {
		text += ", with the present cache " + rate(a.Now)
	}

	return text
}

func (e *Evidence) handles(a Advice) string {
	tables := e.Database.Files
	need := a.Recommendation.Handles
	text := fmt.Sprintf("%s file handles for %s", unit.Count(need), advice.HandlesRule(tables))
	if e.Client == clients.Geth {
		text += fmt.Sprintf(" (geth gives the database half of its limit: ulimit -n %d or more)",
			2*need)
	}

	whose := e.owner()
	switch has := e.Settings.Handles; {
	case has == 0:
	case has >= need:
		text += fmt.Sprintf("; %s %s are enough", whose, unit.Count(has))
	case has-advice.OtherHandles >= tables:
		text += fmt.Sprintf("; %s %s are just enough", whose, unit.Count(has))
	default:
		text += fmt.Sprintf("; %s %s keep %s open: opening one again costs three more reads",
			whose, unit.Count(has),
			unit.Count(max(has-advice.OtherHandles, advice.LeastOpenTables)))
	}

	return text
}

func (e *Evidence) unusedFilters(a Advice) string {
	bytes := a.Inflection.LastLevelFilterBytes
	if bytes == 0 {
		return ""
	}

	text := fmt.Sprintf("%s of filters on the last level are never consulted by a Get: without "+
		"them the database, and what compactions write, would be %s smaller; they take no cache",
		size(bytes), unit.Percent(float64(bytes)/float64(max(e.Database.Bytes, 1))))

	if e.Settings.LastLevelFilter {
		return text + "; " + e.owner() + " options still write them"
	}

	return text + "; " + e.owner() + " options write no more of them: compactions remove them"
}

func (e *Evidence) levelZero() string {
	const many = 3
	for _, l := range e.Database.Levels {
		if l.Level == 0 && l.Sublevels >= many {
			return fmt.Sprintf("level 0 holds %d sublevels, and a Get asks each: compactions are "+
				"behind; once they have caught up (geth db compact) a Get is "+
				"cheaper than predicted here", l.Sublevels)
		}
	}

	return ""
}

func (e *Evidence) pageCache(a Advice) string {
	for _, s := range a.Memory {
		if s.Name == advice.PageCacheShare && s.Bytes > 0 {
			share := math.Min(1, float64(s.Bytes)/float64(max(e.Database.Bytes, 1)))
			return fmt.Sprintf("the %s left can hold up to %s of the database in the page cache: "+
				"at most that share of the block reads does not reach the device",
				size(s.Bytes), unit.Percent(share))
		}
	}

	return ""
}

// whole is told where memory for all of it may be at hand.
func (e *Evidence) whole(v verdict) string {
	const affordable = 4 << 30
	c := e.Curve
	if v == tiny || v == whole || c.WholeBytes > max(affordable, e.Limits.MemoryBytes/2) ||
		c.Now.CacheBytes >= c.WholeBytes {
		return ""
	}
	return fmt.Sprintf("a cache of %s would hold the whole database: no block reads at all once "+
		"it is warm", size(c.WholeBytes))
}

func (e *Evidence) gethLimit(a Advice) string {
	machine := e.memoryOfMachine()
	if e.Client != clients.Geth || machine == 0 || a.Settings[0].CacheBytes >= a.Then.CacheBytes {
		return ""
	}
	return fmt.Sprintf("geth cuts --cache to a third of the machine's memory (%s here): the "+
		"database gets %s of it, not %s",
		size(machine), size(a.Settings[0].CacheBytes), size(a.Then.CacheBytes))
}

// noFlag: cosmos-db v1.1 gives Pebble no cache and reads maxopenfiles alone from the node's
// options.
func (e *Evidence) noFlag() string {
	if e.Client != clients.CosmosSDK {
		return ""
	}
	return "no setting in app.toml gives Pebble a cache: cosmos-db opens it with the library's 8 " +
		"MiB, so Options.Cache has to be set in its NewPebbleDB; " +
		"iavl-cache-size is a number of tree nodes above it, 781250 by default"
}

// unwatched says that what limits the node is not known.
func (e *Evidence) unwatched() string {
	seen := e.Curve.List != nil && e.Curve.List.KeyScheme == "" // the trace of a watch
	if seen || e.Database.Written != "foreign" {
		return ""
	}
	return sentencePart(advice.Unwatched(e.Running))
}

// sentencePart is a sentence without its capital and its full stop.
func sentencePart(text string) string {
	return strings.ToLower(text[:1]) + strings.TrimSuffix(text[1:], ".")
}

// unreadConfig says what could not be read of the settings that the node runs with.
func (e *Evidence) unreadConfig() string {
	if e.Running == nil {
		return ""
	}
	return strings.Join(e.Running.Config.Warnings, "; ")
}

func (e *Evidence) verified() string {
	if len(e.Verified) == 0 {
		return ""
	}

	worst := 0.0
	for _, v := range e.Verified {
		worst = math.Max(worst, math.Abs(v.ErrorPercent))
	}

	const good = 10
	if worst > good {
		return fmt.Sprintf("measured here, the prediction is off by up to %.0f%%: trust what was "+
			"measured", worst)
	}

	text := fmt.Sprintf("measured here, the prediction is off by at most %.1f%%", worst)
	var indexBlocks int64
	for _, l := range e.Database.Levels {
		indexBlocks += l.IndexBlocks
	}

	// Fewer keys leave index blocks that no Get of the measurement asks for.
	const keysPerIndexBlock = 3
	if e.SampleKeys > 0 && int64(e.SampleKeys) < keysPerIndexBlock*indexBlocks {
		text += fmt.Sprintf("; the %s sampled keys ask for part of the %s index blocks only, and "+
			"read less than the node does",
			unit.Count(e.SampleKeys), unit.Count(indexBlocks))
	}

	return text
}

// seconds prints how long something takes.
func seconds(s float64) string {
	switch {
	case s < 120:
		return unit.Significant(s, 2) + " s"
	case s < 7200:
		return unit.Significant(s/60, 2) + " min"
	}
	return unit.Significant(s/3600, 2) + " h"
}
