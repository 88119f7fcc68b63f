// Package advise turns what is known of a database and its node into a
// recommendation: how large the cache must be, what that brings, which flags do
// it, and whether the disk is the limit at all.
//
// Everything comes in as values: a level table, the settings the node runs with and
// a disk's probe (internal/advice), the operator's limits. Draw predicts the curve
// (curve.go), Judge reads it (judge.go, reasons.go), Text prints the judgement.
//
// Non-goals: opening a database, measuring, probing a disk: the verb does that.
package advise

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/explain/nodemetrics"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Evidence is all that a judgement rests on.
type Evidence struct {
	Database   result.Database
	Engine     result.Engine
	Client     clients.Client
	Running    *advice.RunningNode // has the database open; nil: none is known
	Settings   advice.Settings     // what the node runs
	Writes     advice.Writes
	Curve      Curve
	Disk       advice.Disk
	Machine    result.Host
	Limits     Limits
	Node       *nodemetrics.Node     // nil: its metrics were not read
	Missing    float64               // share of Gets for absent keys
	Verified   []Verified            // measured here; none: not asked for
	OpenTables *advice.OpenFileLimit // nil: all tables stay open, or it is not known
	Growth     *Growth               // nil: it was not asked for
	// that Verified asked for, of a database whose keys were sampled; else 0
	SampleKeys int
}

// Limits are the operator's; 0 is none.
type Limits struct {
	MemoryBytes   int64         `json:"memory_bytes,omitempty"`
	LatencyGoal   time.Duration `json:"latency_goal_ns,omitempty"`
	GetsPerSecond float64       `json:"-"`
}

func (l *Limits) members() figure.Members {
	m := figure.Members{}
	if l.GetsPerSecond > 0 {
		m[figure.GetsPerSecond] = &l.GetsPerSecond
	}

	return m
}

// MarshalJSON writes the limits that there are.
func (l Limits) MarshalJSON() ([]byte, error) {
	type plain Limits

	return l.members().Marshal(plain(l))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Limits) UnmarshalJSON(text []byte) error {
	type plain Limits

	return figure.Members{figure.GetsPerSecond: &l.GetsPerSecond}.Unmarshal(text, (*plain)(l))
}

// Verified is a cache size that was measured beside what was predicted for the
// same run: its warm-up, its Gets, nothing written.
type Verified struct {
	CacheBytes   int64   `json:"cache_bytes"`
	WarmupGets   uint64  `json:"warmup_gets"`
	Gets         uint64  `json:"gets"`
	ErrorPercent float64 `json:"error_percent"` // of Predicted
	PageCache    string  `json:"page_cache"`

	Predicted         float64      `json:"-"` // block reads per Get
	Measured          float64      `json:"-"`
	DeviceReadsPerGet figure.Value `json:"-"`
}

func (v *Verified) members() figure.Members {
	reads := figure.BlockReadsPerGet

	return figure.Members{reads.Predicted(): &v.Predicted, reads.Measured(): &v.Measured,
		figure.DeviceReadsPerGet: &v.DeviceReadsPerGet}
}

// MarshalJSON writes the figures by their keys.
func (v Verified) MarshalJSON() ([]byte, error) {
	type plain Verified

	return v.members().Marshal(plain(v))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Verified) UnmarshalJSON(text []byte) error {
	type plain Verified

	return v.members().Unmarshal(text, (*plain)(v))
}

// Advice is what advise --json prints.
type Advice struct {
	Schema         string            `json:"schema"`
	Started        time.Time         `json:"started,omitzero"`  // of a folder
	Command        []string          `json:"command,omitempty"` // of a folder
	Answer         string            `json:"answer"`
	Database       result.Database   `json:"database"`
	Engine         result.Engine     `json:"engine"`
	Inflection     result.Inflection `json:"inflection"`
	Limits         Limits            `json:"limits"`
	Node           *nodemetrics.Node `json:"node,omitempty"` // its own metrics
	Missing        float64           `json:"missing_share"`
	List           *List             `json:"access_list,omitempty"`
	Recommendation Recommendation    `json:"recommendation"`
	// absent: nobody is known to use the database
	Now        State            `json:"now,omitzero"`
	Then       State            `json:"then"`
	Below2     *Place           `json:"below_2,omitempty"`
	Below1_1   *Place           `json:"below_1_1,omitempty"`
	Flat       *Place           `json:"within_2_percent_of_floor,omitempty"`
	WholeBytes int64            `json:"whole_database_cache_bytes"`
	Curve      []Place          `json:"curve"`
	Settings   []advice.Setting `json:"settings"` // how each kind of client is told
	Memory     []advice.Share   `json:"memory"`
	Disk       advice.Disk      `json:"disk"`
	Reasons    []Reason         `json:"reasons"`
	Verified   []Verified       `json:"verified,omitempty"`
	// OpenTables: absent where all tables stay open.
	OpenTables *advice.OpenFileLimit `json:"open_tables,omitempty"`
	Growth     *Growth               `json:"growth,omitempty"`

	// block reads per Get that no cache much smaller than the database saves
	Floor float64 `json:"-"`
}

func (a *Advice) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet.Floor(): &a.Floor}
}

// MarshalJSON writes the figures by their keys.
func (a Advice) MarshalJSON() ([]byte, error) {
	type plain Advice

	return a.members().Marshal(plain(a))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Advice) UnmarshalJSON(text []byte) error {
	type plain Advice

	return a.members().Unmarshal(text, (*plain)(a))
}

// Recommendation is what to do.
type Recommendation struct {
	Keep            bool           `json:"keep"` // what runs now is enough
	CacheBytes      int64          `json:"cache_bytes"`
	BlockCacheBytes int64          `json:"block_cache_bytes"` // of these, while the node writes
	Client          clients.Client `json:"client"`
	Flags           []string       `json:"flags"`
	Handles         int            `json:"handles"`
	// what makes this cache the recommended one
	Rule string `json:"rule,omitempty"`
}

// State is a place with what it means for this node and disk.
type State struct {
	Place
	stateFacts

	BlockReadsPerSecond figure.Value // absent: the Gets per second of the node are not known
}

// stateFacts are the members of State that are no figures.
type stateFacts struct {
	Source string `json:"source,omitempty"` // how it is known
	Whose  string `json:"whose,omitempty"`  // in two or three words
	// if every block read goes to the device
	DeviceNanosPerGet int64 `json:"device_ns_per_get,omitempty"`
}

func (s *State) members() figure.Members {
	m := s.Place.members()
	m[figure.BlockReadsPerSecond] = &s.BlockReadsPerSecond

	return m
}

// MarshalJSON writes the members of the place and of the state as one object.
func (s State) MarshalJSON() ([]byte, error) {
	type place Place // without its methods
	plain := struct {
		place
		stateFacts
	}{place(s.Place), s.stateFacts}

	return s.members().Marshal(plain)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *State) UnmarshalJSON(text []byte) error {
	type place Place
	var plain struct {
		place
		stateFacts
	}

	if err := s.members().Unmarshal(text, &plain); err != nil {
		return err
	}

	// The members are in s; the rest is in plain.
	s.CacheBytes, s.BlockCacheBytes, s.stateFacts = plain.CacheBytes, plain.BlockCacheBytes,
		plain.stateFacts

	return nil
}

// verdict is the kind of answer.
type verdict int

const (
	grow     verdict = iota // a larger cache pays
	keep                    // what runs is enough
	shrink                  // the cache in use exceeds the memory; a smaller one is enough
	limited                 // the memory is less than what is wanted
	hopeless                // the memory does not hold IP1
	tiny                    // everything fits the smallest cache there is
	whole                   // the memory holds a cache for the whole database
)

// nothing is a share of the block reads too small to change a cache for.
const nothing = 0.02

// tinyCacheBytes is what no node would save.
const tinyCacheBytes = advice.GethLeastCache

// Judge reads the evidence.
func Judge(e Evidence) Advice {
	c := e.Curve
	a := Advice{
		Schema: schema.Advice, Database: e.Database, Engine: e.Engine,
		Inflection: lsm.Inflect(e.Database.Levels, e.Database.Values, e.Database.Bytes),
		Limits:     e.Limits, Node: e.Node, Missing: e.Missing, List: c.List, Below2: c.Below2,
		Below1_1: c.Below1_1, Flat: c.Flat, Floor: c.Floor,
		WholeBytes: c.WholeBytes, Curve: c.Points, Disk: e.Disk, Verified: e.Verified,
	}

	v, then := e.decide(a.Inflection)
	if c.Now.CacheBytes > 0 {
		a.Now = e.state(c.Now)
		a.Now.Source, a.Now.Whose = e.Settings.Source, e.whose()
	}

	a.Then = e.state(then)

	m := e.Settings.MemTables(e.Writes)
	own := advice.PebbleSetting(clients.AnyPebble, then.CacheBytes, m)
	switch e.Client {
	case clients.Statelab, clients.CosmosSDK:
		own = advice.PebbleSetting(e.Client, then.CacheBytes, m)
	case clients.Geth:
		own = advice.GethSetting(then.CacheBytes, e.memoryOfCaches(), e.memoryOfMachine(),
			advice.GethMemTables(m))
		switch {
		case v == keep || v == tiny:
			own = e.presentGeth(advice.GethMemTables(m))
		case e.Limits.MemoryBytes == 0 && !e.Settings.Given && c.Now.CacheBytes > 0:
			changed, err := e.changeGeth(then.CacheBytes, advice.GethMemTables(m))
			if err == nil { // otherwise its flags do not tell how it came to its cache
				own = changed
			}
		}
	}

	a.Settings = append(a.Settings, own)
	other := func(s advice.Setting) { // another client has memtables of its own, and may not fit
		if maximum := e.memoryOfCaches(); maximum == 0 ||
			s.CacheBytes+s.OtherCacheBytes <= maximum {
			a.Settings = append(a.Settings, s)
		}
	}

	if e.Client != clients.Geth && e.Client != clients.CosmosSDK {
		g := advice.GethMemTables(m)
		other(advice.GethSetting(g.Total(then.BlockCacheBytes), e.memoryOfCaches(),
			e.memoryOfMachine(), g))
	}

	if e.Client != clients.AnyPebble && e.Client != clients.CosmosSDK {
		p := advice.MemTables{Bytes: 4 << 20, Live: min(m.Live, 2)} // the library's own defaults
		other(advice.PebbleSetting(clients.AnyPebble, p.Total(then.BlockCacheBytes), p))
	}

	a.Recommendation = Recommendation{
		Keep:            v == keep || v == tiny,
		CacheBytes:      then.CacheBytes,
		BlockCacheBytes: then.BlockCacheBytes,
		Client:          e.Client,
		Flags:           own.Flags,
		Handles:         advice.Handles(e.Database.Files),
		Rule:            e.rule(v),
	}

	a.Memory = advice.Shares(own, e.Database.Files, e.Limits.MemoryBytes)
	a.Answer = e.answer(v, then)
	if a.OpenTables = e.OpenTables; a.OpenTables != nil {
		a.Answer = a.OpenTables.Raise("max_open_files") + " " + a.Answer
		a.Recommendation.Handles = max(a.Recommendation.Handles, a.OpenTables.Enough)
	}

	if a.Growth = e.Growth; a.Growth != nil {
		a.Answer += " " + a.Growth.sentence()
	}

	a.Reasons = e.reasons(v, a)
	if text := e.disk(a); e.diskAsked() && text != "" {
		a.Answer += " " + strings.ToUpper(text[:1]) + text[1:] + "."
	}

	return a
}

// changeGeth is the smallest change of the settings that a geth runs with.
func (e *Evidence) changeGeth(wantBytes int64, m advice.MemTables) (advice.Setting, error) {
	var config *result.NodeConfig
	memory := advice.Memory{MachineBytes: e.memoryOfMachine()}
	if e.Running != nil {
		config, memory = &e.Running.Config, e.Running.Memory
	}
	return advice.GethFrom(config, e.Curve.Now.CacheBytes, wantBytes, memory, m)
}

// presentGeth are the settings that make the present cache of a geth: those it runs with, or what
// would make it.
func (e *Evidence) presentGeth(m advice.MemTables) advice.Setting {
	if e.Running != nil && !e.Settings.Given {
		s, err := advice.GethRunning(e.Running.Config, e.Curve.Now.CacheBytes, e.Running.Memory, m)
		if err == nil {
			return s
		}
	}
	return advice.GethPresent(e.Curve.Now.CacheBytes, m)
}

// decide picks the place to go to.
func (e *Evidence) decide(i result.Inflection) (verdict, Place) {
	c := e.Curve
	target := c.Points[len(c.Points)-1]
	if c.Near != nil {
		target = *c.Near
	}

	switch {
	case c.AtMaxBytes == nil && c.Near != nil && e.tooLarge(c.Now.CacheBytes):
		return shrink, *c.Near
	case c.AtMaxBytes == nil && c.WholeBytes <= tinyCacheBytes && c.Now.CacheBytes >= c.WholeBytes:
		return tiny, c.Now
	case c.AtMaxBytes != nil && c.AtMaxBytes.BlockCacheBytes < i.IP1.CacheBytes:
		return hopeless, *c.AtMaxBytes
	case c.AtMaxBytes != nil:
		return limited, *c.AtMaxBytes
	case c.Whole != nil && c.Now.CacheBytes > 0 && c.Now.CacheBytes < c.Whole.CacheBytes &&
		c.Now.BlockReadsPerGet*(1-nothing) > c.Whole.BlockReadsPerGet:
		return whole, *c.Whole
	case c.Now.CacheBytes == 0:
		return grow, target
	case c.Now.CacheBytes >= target.CacheBytes ||
		c.Now.BlockReadsPerGet*(1-nothing) <= target.BlockReadsPerGet:
		return keep, c.Now
	}

	return grow, target
}

// tooLarge reports whether a cache does not fit the memory that was given.
func (e *Evidence) tooLarge(cacheBytes int64) bool {
	return e.Limits.MemoryBytes > 0 &&
		cacheBytes > advice.MaxCache(e.Client, e.Limits.MemoryBytes, e.Database.Files)
}

func (e *Evidence) state(p Place) State {
	s := State{Place: p}
	if rate := e.Limits.GetsPerSecond; rate > 0 {
		s.BlockReadsPerSecond = figure.Known(p.BlockReadsPerGet * rate)
	}

	if len(e.Disk.Points) > 0 {
		s.DeviceNanosPerGet = int64(e.Disk.Latency(p.BlockReadsPerGet,
			s.BlockReadsPerSecond.OrZero()))
	}

	return s
}

func (e *Evidence) memoryOfCaches() int64 {
	if e.Limits.MemoryBytes == 0 {
		return 0
	}
	return max(e.Limits.MemoryBytes-advice.TableBytes*int64(e.Database.Files), 1)
}

// memoryOfMachine is what geth takes for the machine's memory.
func (e *Evidence) memoryOfMachine() int64 {
	if limit := e.Machine.MemoryLimit; limit > 0 && limit < e.Machine.MemoryBytes {
		return limit
	}
	return e.Machine.MemoryBytes
}

// whose is the cache that the advice starts from.
func (e *Evidence) whose() string {
	if e.Settings.Given {
		return "cache given (--cache)"
	}
	return "the node's cache"
}

// owner is whose settings the evidence has.
func (e *Evidence) owner() string {
	if e.Client == clients.Statelab {
		return "statelab's"
	}
	return "the node's"
}

// present names that cache within a sentence.
func (e *Evidence) present() string {
	held := size(e.Curve.Now.CacheBytes)
	if e.Settings.Given {
		return "the cache of " + held + " given with --cache"
	}
	return "the node's cache of " + held
}

// rule says what makes a cache the recommended one; "" where none is.
func (e *Evidence) rule(v verdict) string {
	switch {
	case v == keep || v == tiny:
		return ""
	case v == limited || v == hopeless:
		return "the largest cache that fits the memory"
	case v == whole:
		return "a cache that holds every block of the database"
	case e.Curve.Near == nil:
		return "the largest cache that was predicted"
	}

	return smallestWithin(nearFloor, e.Curve.List)
}

// smallestWithin defines a knee by its share of the data blocks of a Get.
func smallestWithin(share float64, list *List) string {
	if list != nil {
		return fmt.Sprintf("the smallest cache with no more block reads than the first reads and "+
			"%.0f%% of the data blocks of a Get", 100*share)
	}
	return fmt.Sprintf("the smallest cache with at most %.0f%% more block reads than the data "+
		"blocks of a Get", 100*share)
}

// answer is the sentence the operator came for.
func (e *Evidence) answer(v verdict, then Place) string {
	c := e.Curve
	switch v {
	case tiny:
		return fmt.Sprintf("%s is large enough: the whole database takes %s in a cache.",
			doc.Upper(e.present()), size(c.WholeBytes))
	case shrink:
		return fmt.Sprintf("%s does not fit %s of memory, and %s is enough: %s%s.",
			doc.Upper(e.present()), size(e.Limits.MemoryBytes), size(then.CacheBytes),
			e.needs(then), e.beyond())
	case hopeless:
		return fmt.Sprintf("The largest cache that fits %s of memory is %s. It has %s for "+
			"blocks, too little even for the filters and top-level indexes (IP1, %s): "+
			"%s%s%s.", size(e.Limits.MemoryBytes), size(then.CacheBytes),
			size(then.BlockCacheBytes),
			size(lsm.Inflect(e.Database.Levels, e.Database.Values, 0).IP1.CacheBytes),
			e.needs(then), e.beside(), e.wanted())
	case limited:
		return fmt.Sprintf("In %s of memory a cache of %s fits: %s%s%s.",
			size(e.Limits.MemoryBytes), size(then.CacheBytes), e.needs(then), e.beside(),
			e.wanted())
	case whole:
		return fmt.Sprintf("%s of memory hold the whole database: with a cache of %s, no Get "+
			"reads a block once it is warm%s.", size(e.Limits.MemoryBytes), size(then.CacheBytes),
			e.beside())
	case keep:
		text := fmt.Sprintf("%s is large enough: %s", doc.Upper(e.present()), e.needs(c.Now))
		if c.Near != nil && c.Near.CacheBytes < c.Now.CacheBytes {
			text += e.wanted()
		}
		return text + e.beyond() + "."
	}

	return fmt.Sprintf("With a cache of %s: %s%s%s.", size(then.CacheBytes), e.needs(then),
		e.beside(), e.beyond())
}

// needs says what a Get costs, and whether the node writes meanwhile.
func (e *Evidence) needs(p Place) string {
	of := ""
	if e.Curve.List != nil {
		of = " " + e.Curve.List.whose()
	}

	when := "while the node writes"
	if e.Settings.MemTables(e.Writes).Live == 0 {
		when = "while nothing is written"
	}

	text := fmt.Sprintf("%s, a Get%s needs about %s block reads", when, of, reads(p))
	if rest, known := p.AtRest.Number(); known && perGet(rest) != reads(p) {
		text += fmt.Sprintf(" (%s when nothing is written, as sweep measures)", perGet(rest))
	}

	return text
}

// beside is what the present cache costs.
func (e *Evidence) beside() string {
	now := e.Curve.Now
	if now.CacheBytes == 0 {
		return ""
	}

	text := fmt.Sprintf("; with %s: %s", e.present(), reads(now))
	if rest, known := now.AtRest.Number(); known && perGet(rest) != reads(now) {
		text += fmt.Sprintf(" (%s)", perGet(rest))
	}

	return text
}

// wanted is what the recommended cache would cost, where another is the answer.
func (e *Evidence) wanted() string {
	if e.Curve.Near == nil {
		return ""
	}
	return fmt.Sprintf("; a cache of %s would need %s", size(e.Curve.Near.CacheBytes),
		reads(*e.Curve.Near))
}

// beyond is what a larger cache gains once only data blocks are left to be cached.
func (e *Evidence) beyond() string {
	c := e.Curve
	if c.Flat == nil || c.Doubled == nil {
		return ""
	}

	const little = 0.1
	gain := "less than 2%"
	// not a number where a cache of this size holds everything
	switch saved := 1 - c.Doubled.BlockReadsPerGet/c.Flat.BlockReadsPerGet; {
	case saved >= little:
		gain = fmt.Sprintf("%.0f%%", math.Ceil(100*saved))
	case saved >= nothing:
		gain = fmt.Sprintf("only %.0f%%", math.Ceil(100*saved))
	}

	return fmt.Sprintf("; doubling a cache of %s saves %s of the reads", size(c.Flat.CacheBytes),
		gain)
}

func size(bytes int64) string { return unit.Bytes(bytes) }

func reads(p Place) string { return perGet(p.BlockReadsPerGet) }

// perGet has three digits, and nothing below a thousandth.
func perGet(v float64) string {
	if v < 0.0005 {
		return "0"
	}
	return unit.Significant(math.Round(v*1000)/1000, 3)
}
