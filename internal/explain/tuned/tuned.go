// Package tuned explains what statelab tune found: as text and as JSON.
//
// Non-goals: finding it (ask/tune).
package tuned

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result/figure"
)

// File holds a Tuning in the folder of an answer.
const File = "tuning.json"

// Read reads the folder of an answer.
func Read(dir string) (*Tuning, error) {
	return output.ReadJSON(filepath.Join(dir, File), schema.Tuning,
		func(t *Tuning) string { return t.Schema })
}

// Tuning is what tune prints.
type Tuning struct {
	Schema  string `json:"schema"`
	Answer  string `json:"answer"`
	Source  string `json:"source"` // the database, or the words of one that does not exist
	Engine  string `json:"engine"`
	Version string `json:"engine_version,omitempty"`
	Traffic string `json:"traffic"`
	// before those that are predicted and measured
	WarmupGets uint64  `json:"warmup_gets,omitempty"`
	Gets       uint64  `json:"gets,omitempty"`
	Missing    float64 `json:"missing_share"`
	Method     string  `json:"method"` // how reads are predicted
	Goal       string  `json:"goal"`   // reads, bytes or time
	Memory     int64   `json:"memory_bytes"`
	CacheBytes int64   `json:"cache_bytes"`
	// by which filters and indexes beside the present cache exceed the memory
	Over int64 `json:"present_over_memory_bytes,omitempty"`
	// whose handles take the rest of the memory
	Tables    int    `json:"tables"`
	MemTables int64  `json:"memtable_bytes"`
	Beside    bool   `json:"memtables_beside_memory,omitempty"` // else they are in the cache
	Present   Config `json:"present"`
	Best      Config `json:"best"`
	// the best cannot be told from the present one
	Tied bool `json:"tied"`
	// the present one with the best value of one option, from the largest gain on
	Alone []Config `json:"alone"`
	// the present one with each other value of one option, predicted from one sample
	Grid []Config `json:"grid"`
	// none has another that is better in every respect
	Front []Config `json:"front"`
	// the best one with memtables of other sizes, two of which take memory
	Buffers   []Config `json:"memtable_sizes,omitempty"`
	Predicted int      `json:"predicted_configurations"`
	Stopped   bool     `json:"stopped"`      // by the limit of time
	Error     float64  `json:"tested_error"` // share by which such predictions were off
	// Errors are such shares of other figures, by their names.
	Errors   map[string]float64 `json:"tested_errors,omitempty"`
	Costs    *Costs             `json:"costs,omitempty"`          // of the goal time
	ReadTime float64            `json:"device_read_us,omitempty"` // of a block, as was said
	Snippet  string             `json:"snippet"`
	// the function that looks a key up, where that changes
	Lookup   string         `json:"lookup,omitempty"`
	Rewrite  string         `json:"rewrite,omitempty"`
	Verified []Verification `json:"verified,omitempty"`
	// OpenFiles: absent where the present limit of open files keeps all tables open.
	OpenFiles *OpenFiles       `json:"open_files,omitempty"`
	Warnings  []engine.Warning `json:"warnings,omitempty"`
	// Verdict says what of the node that has the database is not known; "": there is no node, or
	// its Gets were seen.
	Verdict string `json:"verdict,omitempty"`
}

// OpenFiles is the present limit of open files, which keeps some tables closed. All configurations
// but the present one have a limit that keeps all of them open.
type OpenFiles struct {
	Option string `json:"option"` // the engine's name of the limit
	advice.OpenFileLimit
}

// OptionsOf are the options of a configuration, with its limit of open files where that is one.
func (t *Tuning) OptionsOf(c Config) map[string]string {
	if t.OpenFiles == nil || c.OpenFiles == 0 {
		return c.Options
	}
	all := maps.Clone(c.Options)
	all[t.OpenFiles.Option] = strconv.Itoa(c.OpenFiles)
	return all
}

// Config is a configuration with what is predicted of it.
type Config struct {
	Options map[string]string `json:"options"` // in the engine's own words
	Low     float64           `json:"low"`     // of Reads, with the error that such predictions had
	High    float64           `json:"high"`
	Cache   int64             `json:"cache_bytes"`
	// filters and indexes, in the cache or beside it
	Memory int64 `json:"memory_bytes"`
	// the limit of open files, where the present one keeps tables closed
	OpenFiles int `json:"max_open_files,omitempty"`

	Reads  float64            `json:"-"` // blocks per Get
	Bytes  float64            `json:"-"` // of them, as they are on disk
	Disk   int64              `json:"-"`
	ByType map[string]float64 `json:"-"` // of Reads
	Writes figure.Value       `json:"-"` // amplification of a load in random order, with the log
	CPU    figure.Value       `json:"-"` // us per Get
	Time   figure.Value       `json:"-"` // us per Get, of the processor and of reads of the device
}

func (c *Config) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet: &c.Reads,
		figure.BlockReadsPerGet.ByType(): &c.ByType,
		figure.BytesReadPerGet:           &c.Bytes, figure.DiskBytes: &c.Disk,
		figure.WriteAmplification: &c.Writes,
		figure.CPUMicrosPerGet:    &c.CPU, figure.TimeMicrosPerGet: &c.Time}
}

// MarshalJSON writes the figures by their keys.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config

	return c.members().Marshal(plain(c))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Config) UnmarshalJSON(text []byte) error {
	type plain Config

	return c.members().Unmarshal(text, (*plain)(c))
}

// Costs are what Gets cost a processor, measured on this machine with small databases: nanoseconds,
// with blocks as they are in the cache.
type Costs struct {
	Get     float64 `json:"get_ns"` // that finds all blocks in the cache
	GetByte float64 `json:"get_ns_per_block_byte"`
	// of a look-up that asks the last level's filters, beyond a Get
	LastFilters float64 `json:"last_filters_ns,omitempty"`
	// of a block from the page cache
	Read     float64            `json:"read_ns"`
	ReadByte map[string]float64 `json:"read_ns_per_byte"` // by compression
}

// Verification is a configuration that was built and measured.
type Verification struct {
	Options map[string]string `json:"options"`
	Folder  string            `json:"folder"`

	Predicted float64 `json:"-"` // block reads per Get
	Measured  float64 `json:"-"`
}

func (p *Verification) members() figure.Members {
	reads := figure.BlockReadsPerGet

	return figure.Members{reads.Predicted(): &p.Predicted, reads.Measured(): &p.Measured}
}

// MarshalJSON writes the figures by their keys.
func (p Verification) MarshalJSON() ([]byte, error) {
	type plain Verification

	return p.members().Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Verification) UnmarshalJSON(text []byte) error {
	type plain Verification

	return p.members().Unmarshal(text, (*plain)(p))
}

// Off is by what share the prediction is off.
func (p Verification) Off() float64 { return p.Predicted/p.Measured - 1 }

// SetAnswer fills the answer in.
func (t *Tuning) SetAnswer() {
	memory, gets := unit.Bytes(t.Memory), "a Get"
	if t.Missing > 0 {
		gets = fmt.Sprintf("a Get (%s negative lookups)", doc.Percent(100*t.Missing))
	}

	value, print := func(c Config) float64 { return c.Reads },
		func(v float64) string { return doc.PerGet(v) + " blocks" }
	reads, read := "reads", "read"
	switch t.Goal {
	case "bytes":
		value, print = func(c Config) float64 { return c.Bytes },
			func(v float64) string { return unit.Bytes(int64(math.Round(v))) }
	case "time":
		value, print = func(c Config) float64 { return c.Time.OrZero() },
			func(v float64) string { return doc.PerGet(v) + " us" }
		reads, read = "takes", "take"
	}

	now, then := value(t.Present), value(t.Best)
	if t.Tied {
		t.Answer = fmt.Sprintf("In %s, no tested configuration is significantly better than the "+
			"current one: %s %s %s with it, and %s with the best one, "+
			"which is within the error of the prediction.", memory, gets, reads, print(now),
			print(then)) + t.raise()
		return
	}

	t.Answer = fmt.Sprintf("In %s, %s would %s %s with %s. With the present options it %s %s: %s "+
		"less.%s", memory, gets, read, print(then),
		OptionList(changed(t.OptionsOf(t.Present), t.OptionsOf(t.Best))), reads, print(now),
		doc.Percent(100*(1-then/now)), t.price()) + t.raise()

	if t.Over > 0 {
		t.Answer += fmt.Sprintf(" The present options need %s more memory than that: filters and "+
			"indexes are outside the block cache.", unit.Bytes(t.Over))
	}

	if p := t.proved(); p != "" {
		t.Answer += " " + p
	}
}

// raise says what the limit of open files alone costs.
func (t *Tuning) raise() string {
	if t.OpenFiles == nil {
		return ""
	}
	return " " + t.OpenFiles.Raise(t.OpenFiles.Option)
}

// price is what the fewest reads cost in bytes.
func (t *Tuning) price() string {
	if t.Goal != "reads" || t.Best.Bytes <= t.Present.Bytes {
		return ""
	}
	return fmt.Sprintf(" Each Get reads more bytes: %s instead of %s.",
		unit.Bytes(int64(t.Best.Bytes)), unit.Bytes(int64(t.Present.Bytes)))
}

// proved is what measuring says of the gain.
func (t *Tuning) proved() string {
	if len(t.Verified) < 2 {
		return ""
	}

	present, best := t.Verified[0], t.Verified[1]
	worst := 0.0
	for _, p := range t.Verified {
		worst = max(worst, math.Abs(p.Off()))
	}

	less := ""
	if t.Goal == "reads" {
		less = fmt.Sprintf(", %s less", doc.Percent(100*(1-best.Measured/present.Measured)))
	}

	// Rounded up: none is further off.
	return fmt.Sprintf("Measured: %s and %s blocks%s. The predictions of all %d that were "+
		"measured are within %s of what was measured.",
		doc.PerGet(best.Measured), doc.PerGet(present.Measured), less, len(t.Verified),
		unit.Significant(math.Ceil(1000*worst)/10, 3)+"%")
}

// changed are the options of to that from has not.
func changed(from, to map[string]string) map[string]string {
	other := map[string]string{}
	for name, value := range to {
		if from[name] != value {
			other[name] = value
		}
	}
	return other
}

// OptionList are options as NAME=VALUE, with commas between them.
func OptionList(options map[string]string) string {
	var all []string
	for name, value := range options {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// row is a configuration and what it is.
type row struct {
	name string
	Config
}

// rows are the configurations that are shown, each once.
func (t *Tuning) rows() []row {
	rows := []row{{"present", t.Present}, {"best", t.Best}}
	for _, of := range []struct {
		name string
		list []Config
	}{{"one option", t.Alone}, {"", t.Front}, {"memtables", t.Buffers}} {
		rows = append(rows, doc.Each(of.list, func(c Config) row { return row{of.name, c} })...)
	}

	for i := range rows {
		rows[i].Options = t.OptionsOf(rows[i].Config)
	}

	shown := map[string]bool{}
	return doc.Where(rows, func(r row) bool {
		all := OptionList(r.Options)
		known := shown[all]
		shown[all] = true
		return !known
	})
}

func (t *Tuning) table() doc.Table {
	rows := t.rows()
	columns := []doc.Column[row]{doc.Words("", func(r row) string { return r.name })}
	columns = append(columns,
		optionColumns(rows, func(r row) map[string]string { return r.Options })...)
	if t.Costs != nil {
		columns = append(columns, doc.Optional("time", "us/Get", doc.PerGet,
			func(r row) *float64 { return r.Time.Pointer() }),
			doc.Optional("processor", "us/Get", doc.PerGet,
				func(r row) *float64 { return r.CPU.Pointer() }).Spared(2))
	}

	return doc.TableOf(rows, nil, append(columns,
		doc.Figure("reads", "/Get", doc.PerGet, func(r row) float64 { return r.Reads }),
		doc.Figure("from", "/Get", doc.PerGet, func(r row) float64 { return r.Low }).Spared(2),
		doc.Figure("to", "/Get", doc.PerGet, func(r row) float64 { return r.High }).Spared(2),
		doc.Figure("read", "KiB/Get", nil, func(r row) float64 { return r.Bytes / (1 << 10) }),
		doc.Figure("metadata", "MiB", nil, func(r row) float64 {
			return float64(r.Memory) / (1 << 20)
		}).Spared(1),
		doc.Figure("disk", "MiB", nil, func(r row) float64 { return float64(r.Disk) / (1 << 20) }).
			Spared(1),
		doc.Optional("writes", "/byte", nil,
			func(r row) *float64 { return r.Writes.Pointer() }).Spared(2))...)
}

// optionColumns have the options of each row, in a column each.
func optionColumns[R any](rows []R, of func(R) map[string]string) []doc.Column[R] {
	names := map[string]string{}
	for _, r := range rows {
		maps.Copy(names, of(r))
	}
	return doc.Each(slices.Sorted(maps.Keys(names)), func(name string) doc.Column[R] {
		return doc.Words(name, func(r R) string { return of(r)[name] })
	})
}

// method tells how the figures were made.
func (t *Tuning) method() string {
	cache := "each with a cache of " + unit.Bytes(t.CacheBytes)
	if t.Present.Cache != t.Best.Cache {
		cache = fmt.Sprintf("with what the filters and indexes beside it leave for a cache, %s "+
			"now and %s with the best options", unit.Bytes(t.Present.Cache),
			unit.Bytes(t.CacheBytes))
	}

	text := fmt.Sprintf("%d configurations were predicted for %s (%s), %s; the handles of %s "+
		"tables take the rest of the memory. "+
		"Columns from and to include the validation error, %s. Metadata are filters and indexes. "+
		"The last rows are the Pareto front: no other configuration is better in reads, bytes "+
		"read and size at once.",
		t.Predicted, t.Traffic, t.Method, cache, unit.Count(uint64(t.Tables)),
		doc.Percent(100*t.Error))

	if off := func(name string) string {
		return doc.Percent(100 * t.Errors[name])
	}; t.Errors != nil {
		text += fmt.Sprintf(" Tested, bytes read were within %s, metadata within %s, disk within "+
			"%s and write amplification (of a load in random order) within %s "+
			"of what was built.", off(figure.BytesReadPerGet.Key), off("memory_bytes"),
			off(figure.DiskBytes.Key), off(figure.WriteAmplification.Key))

		if t.Costs != nil {
			text += fmt.Sprintf(" Time is that of a processor, as measured on this machine with "+
				"small databases, and %s us for each read of the device (--read-time). "+
				"Two configurations whose processor times differ by more than %s were in the "+
				"measured order.",
				doc.PerGet(t.ReadTime), off(figure.CPUMicrosPerGet.Key))
		}
	}

	switch {
	case t.Beside:
		text += fmt.Sprintf(" Memtables come on top: up to %s while the program writes.",
			unit.Bytes(t.MemTables))
	case t.MemTables > 0:
		text += fmt.Sprintf(" Memtables take %s of the cache.", unit.Bytes(t.MemTables))
	}

	if len(t.Buffers) > 0 {
		text += " Rows of memtables are the best options while the program writes, when two " +
			"memtables of that size take memory from the cache."
	}

	if t.Stopped {
		text += " The search was stopped by --timeout: with more time it may find a better one."
	}

	return text
}

func (t *Tuning) proofs() doc.Table {
	return doc.TableOf(t.Verified, nil,
		append(
			optionColumns(t.Verified, func(p Verification) map[string]string { return p.Options }),
			doc.Figure("measured", "/Get", doc.PerGet, func(p Verification) float64 {
				return p.Measured
			}),
			doc.Figure("predicted", "/Get", doc.PerGet, func(p Verification) float64 {
				return p.Predicted
			}),
			doc.Figure("off", "%", nil, func(p Verification) float64 { return 100 * p.Off() }),
		)...)
}

// Document says what was found, and how to set it.
func (t *Tuning) Document() *doc.Document {
	const method = "tuning.md"
	d := &doc.Document{
		Title:    "Statelab: the best options for a budget",
		Warnings: doc.WarningsOf(t.Warnings),
	}
	d.Answer("", t.Answer)
	d.Cards = []doc.Card{{Name: "database", Facts: doc.Known([][2]string{
		{"database", t.Source},
		{"engine", t.Engine + " " + t.Version},
		{"Gets", t.Traffic},
		{"memory", unit.Bytes(t.Memory)},
	})}}

	d.Add("What other options would read",
		doc.Block{
			Title:  "Block reads per Get",
			Method: method,
			Table:  t.table(),
			Texts:  doc.Without([]string{t.method(), t.Verdict}),
		})

	d.Add("What was measured", doc.Block{
		Title:  "Predicted and measured",
		Method: method,
		Table:  t.proofs(),
	})

	if !t.Tied {
		d.Add("How to set them", doc.Block{
			Title:  "Options",
			Method: method,
			Pre:    t.Snippet + t.Lookup,
			Texts:  doc.Without([]string{t.Rewrite}),
		})
	}

	return d
}
