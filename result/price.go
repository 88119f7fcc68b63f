package result

import (
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
)

// PriceSchema is the version of price.json.
const PriceSchema = "statelab.price/1"

// PriceFile is in the folder of a price table.
const PriceFile = "price.json"

// Estimate is a figure with the range that it may be in.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Price is price.json: what accesses to state cost in gas, by a formula from the
// figures that stand in the same row.
type Price struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Why
	Started      time.Time        `json:"started"`
	Command      []string         `json:"command"`
	Host         Host             `json:"host"`
	GasPerSecond float64          `json:"gas_per_second"`
	Formula      []string         `json:"formula"`
	Parameters   []PriceParameter `json:"parameters"`
	Hardware     []Hardware       `json:"hardware"`
	Rows         []PriceRow       `json:"rows"`
	Layouts      []string         `json:"layouts"` // folders of the comparisons that were priced
	Warnings     []engine.Warning `json:"warnings"`
}

// PriceParameter is a gas price of the protocol.
type PriceParameter struct {
	Name     string  `json:"name"`
	Today    float64 `json:"today_gas"`
	Proposed float64 `json:"proposed_gas"`
	About    string  `json:"about"`
}

// PriceRow is what one access costs: of a layout at a size, on a class of hardware, with
// caches in one condition. nil is absent.
type PriceRow struct {
	Parameter     string `json:"parameter"`
	Absent        bool   `json:"absent,omitempty"` // what is accessed does not exist
	Layout        string `json:"layout"`
	Accounts      uint64 `json:"accounts"`
	ContractSlots uint64 `json:"contract_slots"`
	Condition     string `json:"condition"` // of Lookups; of writes: held
	Hardware      string `json:"hardware"`

	Predicted   bool     `json:"predicted,omitempty"` // a size that was not built
	Basis       string   `json:"basis"`
	TestedError *float64 `json:"tested_error,omitempty"` // relative, of a prediction of a size that was built

	Accesses   *float64 `json:"accesses,omitempty"` // nodes, else pages
	Reads      Estimate `json:"reads"`
	ReadUnit   string   `json:"read_unit"`
	Bytes      *float64 `json:"device_bytes,omitempty"`
	CPUNanos   float64  `json:"cpu_ns"`
	CPUError   float64  `json:"cpu_error,omitempty"` // relative, of a prediction
	QueueDepth int      `json:"queue_depth"`

	AloneNanos  Estimate `json:"alone_ns"`
	QueuedNanos Estimate `json:"queued_ns"`
	AloneGas    Estimate `json:"alone_gas"`
	QueuedGas   Estimate `json:"queued_gas"`
	Binds       string   `json:"binds"` // the larger part of the time at the queue depth
}

// WritePrice writes price.json into dir, whole or not at all.
func WritePrice(dir string, p *Price) error {
	return write(filepath.Join(dir, PriceFile), p, &p.Schema, PriceSchema, &p.Warnings)
}

// ReadPrice reads dir/price.json.
func ReadPrice(dir string) (*Price, error) {
	return output.ReadJSON(filepath.Join(dir, PriceFile), PriceSchema, func(v *Price) string { return v.Schema })
}
