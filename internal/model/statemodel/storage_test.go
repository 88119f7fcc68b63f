package statemodel

import (
	"math"
	"testing"

	"github.com/statelab/statelab/internal/model/cachesim"
)

// TestGethPathAsMeasured: warm lookups of 300k accounts and 400k slots of one contract, with 16 MiB
// for Pebble's cache and 12 of page cache, as `statelab layouts --layout geth-path --accounts 300k
// --contract-slots 400k --memory 16MiB` measured them: read calls of each kind, one after another.
func TestGethPathAsMeasured(t *testing.T) {
	state := State{
		Accounts:      300_000,
		ContractShare: 1. / 300_000,
		SlotsPer:      400_000,
		BlockAccounts: 5000,
		DiskBytes:     241_225_728,
	}

	const cache = 16 << 20
	memory := GethMemory{
		PebbleBytes:    cache,
		Shards:         cachesim.ShardCount(cache, 2),
		PageCacheBytes: 12 << 20,
	}

	order := []Kind{Account, AbsentAccount, Slot, AbsentSlot}
	lookups := []LookupPhase{{AbsentSlot, 2000}}
	for _, kind := range order {
		lookups = append(lookups, LookupPhase{kind, 20_000})
	}

	measured := []float64{1.6125, 1.1265, 1.4151, 1.1779}
	for i, kind := range order {
		lookups = append(lookups, LookupPhase{kind, 20_000})
		if kind == AbsentAccount || kind == AbsentSlot { // playing the cache takes seconds
			continue
		}

		got := After(GethPath(state, memory), lookups)[1]
		if math.Abs(got/measured[i]-1) > .12 {
			t.Errorf("kind %d: %.3f reads, measured were %.3f", kind, got, measured[i])
		}
	}
}

// TestFewContractsShareTheirAccounts: with few contracts, the accounts above their slots are always
// kept, so that a slot costs no more than its own trie; with many it costs the account's, too.
func TestFewContractsShareTheirAccounts(t *testing.T) {
	reads := func(contracts float64) (account, slot float64) {
		state := State{
			Accounts:      300e6,
			ContractShare: contracts / 300e6,
			SlotsPer:      3e9 / contracts,
			DiskBytes:     400e9,
		}
		memories := GethPath(state, GethMemory{
			CleanBytes:     2 << 30,
			PebbleBytes:    2 << 30,
			PageCacheBytes: 12 << 30,
		})
		mix := Mix{Account: 1, Slot: 1}
		return SteadyAmong(memories, Account, mix)[2], SteadyAmong(memories, Slot, mix)[2]
	}

	account, few := reads(100)
	_, many := reads(30e6)
	if few < 1 || few > 3 || many < few+account/2 || many > 5 {
		t.Errorf("%.2f reads of an account, %.2f of a slot of few contracts, %.2f of many", account,
			few, many)
	}
}
