package accesses

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// Published facts that generated traffic is fitted to. generate_test.go holds a list against them.
//
// Blocks 26,095,544 to 26,096,543 of the main network, 305 transactions each in the mean
// (ethereum/EIPs, assets/eip-7928/bal_size_analysis_60m_2026_10.md): accounts, slots written and
// slots only read in a block. Touched accounts that do not change take 4.0 KiB of 27 bytes each.
//
// "The anatomy of Ethereum's state access", ethresear.ch/t/25317: the most read hundredth of the
// accounts takes 96 to 98 % of read accesses; 83 to 93 % of the slots that are only read do not
// exist; two thirds of the writes change a slot that exists, the others make one.
const (
	FactAccounts     = 766
	FactUnchanged    = 150
	FactSlotsWritten = 986
	FactSlotsRead    = 1201
	FactTransactions = 305
	FactTopShareLow  = 0.96
	FactTopShareHigh = 0.98
	FactAbsentReads  = 0.88
	FactCreations    = 1. / 3
)

// The fit: free parameters, found by trial against the facts.
const (
	contractSkew   = 1.95 // Zipf exponent of contracts
	slotSkew       = 1.08 // and of the slots of one
	senderSkew     = 1.02 // and of accounts without code
	contractsPerTx = 5.   // a transaction touches, in the mean
	sendersPerTx   = 2.2
	writesPerTx    = 3.25
	readsPerTx     = 3.95
	rereadsPerTx   = 55. // of slots and accounts that the block has touched before
	probeSkew      = 1.03
)

// Profile says what to generate.
type Profile struct {
	Blocks   uint64
	Accounts uint64 // that there are
	Seed     uint64
	// ContractShare of the accounts have code.
	ContractShare float64
}

// Check names what is wrong with a profile.
func (p Profile) Check() error {
	if p.Blocks == 0 || p.Accounts < 1000 || p.ContractShare <= 0 || p.ContractShare >= 1 {
		return fmt.Errorf("want at least 1 block, 1,000 accounts and a share of contracts " +
			"between 0 and 1")
	}
	return nil
}

// Generated is traffic by a Profile.
type Generated struct {
	profile Profile
	hasher  *mpt.Hasher
	join    *Joiner
	number  uint64
	made    uint64 // slots that blocks have made
}

// Generate returns the traffic of a profile: the same for the same seed.
func Generate(p Profile) *Generated {
	return &Generated{profile: p, hasher: mpt.NewHasher(), join: NewJoiner()}
}

// Info implements Source.
func (g *Generated) Info() Info {
	return Info{
		Form:    "generated",
		Ordered: true,
		Provenance: fmt.Sprintf("generated: seed %d, %d accounts, %g of them contracts, "+
			"fitted to EIP-7928's analysis of blocks 26,095,544 to 26,096,543 and to "+
			"ethresear.ch/t/25317", g.profile.Seed,
			g.profile.Accounts, g.profile.ContractShare),
	}
}

// Close implements Source.
func (g *Generated) Close() error { return nil }

// hash names things: kind keeps them apart.
func (g *Generated) hash(kind byte, numbers ...uint64) Word {
	text := []byte{kind}
	for _, n := range append([]uint64{g.profile.Seed}, numbers...) {
		text = binary.BigEndian.AppendUint64(text, n)
	}
	return Word(g.hasher.Sum(text))
}

func (g *Generated) contract(rank uint64) Address {
	w := g.hash('c', rank)
	return Address(w[12:])
}

func (g *Generated) sender(rank uint64) Address {
	w := g.hash('e', rank)
	return Address(w[12:])
}

// Next implements Source.
func (g *Generated) Next(b *Block) error {
	if g.number == g.profile.Blocks {
		return io.EOF
	}

	g.number++
	*b = Block{Number: g.number, Accesses: b.Accesses[:0]}
	rng := rand.New(rand.NewPCG(g.profile.Seed, g.number))
	contracts := uint64(float64(g.profile.Accounts) * g.profile.ContractShare)
	draw := func(skew float64, maximum uint64) func() uint64 {
		return rand.NewZipf(rng, skew, 8, max(maximum, 2)-1).Uint64
	}
	contract, sender := draw(contractSkew, contracts),
		draw(senderSkew, g.profile.Accounts-contracts)
	slot, probe := draw(slotSkew, 1<<32), draw(probeSkew, 1<<40)
	after := map[Address]*Values{}
	slots := map[slotOf]int{}
	for tx := range uint32(FactTransactions) {
		t := &transaction{g: g, b: b, tx: tx + 1, after: after, slots: slots, rng: rng}
		start := len(b.Accesses)
		t.account(g.sender(sender()), true)
		for range mean(rng, sendersPerTx-1) {
			t.account(g.sender(sender()), rng.Float64() < .9)
		}

		var called []uint64
		for range 1 + mean(rng, contractsPerTx-1) {
			rank := contract()
			called = append(called, rank)
			t.account(g.contract(rank), rng.Float64() < .1)
			t.touch(Access{Kind: Code, Address: g.contract(rank)})
		}

		t.storage(called, slot, probe)
		// what execution asks for again, mostly of its own transaction
		for range mean(rng, rereadsPerTx) {
			again := b.Accesses[start+rng.IntN(len(b.Accesses)-start)]
			for again.Kind != Slot && rng.Float64() < .97 {
				again = b.Accesses[start+rng.IntN(len(b.Accesses)-start)]
			}

			again.Write = false
			t.touch(again)
		}
	}

	for _, v := range after {
		b.After = append(b.After, *v)
	}

	return g.join.Join(b)
}

// mean is a random number of a mean, spread as calls of contracts are: most few, some many.
func mean(rng *rand.Rand, of float64) int { return int(rng.ExpFloat64()*of + .5) }

// transaction adds accesses.
type transaction struct {
	g     *Generated
	b     *Block
	tx    uint32
	after map[Address]*Values
	slots map[slotOf]int // where a written slot is in its account's After
	rng   *rand.Rand
}

func (t *transaction) touch(a Access) {
	a.Tx = t.tx
	t.b.Accesses = append(t.b.Accesses, a)
}

func (t *transaction) account(a Address, changes bool) {
	t.touch(Access{Kind: Account, Address: a, Write: changes})
	if !changes {
		return
	}
	balance := uintWord(t.rng.Uint64())
	t.left(a).Balance = &balance
}

// storage writes and reads slots of the contracts that were called.
func (t *transaction) storage(called []uint64, slot, probe func() uint64) {
	g, rng := t.g, t.rng
	for range mean(rng, writesPerTx) {
		rank := called[rng.IntN(len(called))]
		if rng.Float64() < FactCreations {
			g.made++
			t.write(g.contract(rank), g.hash('n', g.made), true)
		} else {
			t.write(g.contract(rank), g.hash('s', rank, slot()), false)
		}
	}

	for range mean(rng, readsPerTx) {
		rank := called[rng.IntN(len(called))]
		if rng.Float64() < FactAbsentReads {
			absent := g.hash('p', rank, probe())
			t.b.Before = append(t.b.Before, Values{
				Address: g.contract(rank),
				Slots:   []Stored{{Slot: absent}},
			})

			t.touch(Access{Kind: Slot, Address: g.contract(rank), Slot: absent})
		} else {
			t.touch(Access{Kind: Slot, Address: g.contract(rank), Slot: g.hash('s', rank, slot())})
		}
	}
}

// left is what the block leaves of an account.
func (t *transaction) left(a Address) *Values {
	v := t.after[a]
	if v == nil {
		v = &Values{Address: a}
		t.after[a] = v
	}
	return v
}

func (t *transaction) write(a Address, slot Word, made bool) {
	if made {
		t.b.Before = append(t.b.Before, Values{Address: a, Slots: []Stored{{Slot: slot}}})
	}

	t.touch(Access{Kind: Slot, Address: a, Slot: slot, Write: true})
	v := t.left(a)
	value := uintWord(t.rng.Uint64() | 1)
	at, written := t.slots[slotOf{a, slot}]
	if !written {
		t.slots[slotOf{a, slot}] = len(v.Slots)
		v.Slots = append(v.Slots, Stored{slot, value})
		return
	}

	v.Slots[at].Value = value
}
