package bench

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/accesses"
)

// played are the keys of an access list, in order; after the last comes the first again.
type played struct {
	*sample
	order  []uint32 // of keys
	absent []bool   // by key
	warm   uint64   // Gets before those that count
}

// readPlayed resolves the list of spec to keys of the database that reader reads.
func readPlayed(reader engine.Reader, spec *Spec) (*played, error) {
	file, err := os.Open(spec.AccessList)
	if err != nil {
		return nil, fmt.Errorf("open the access list: %w", err)
	}
	list, err := accesses.OpenContainer(file, spec.AccessList)
	if err != nil {
		return nil, err
	}
	defer list.Close() // it is only read
	p := &played{sample: &sample{seed: maphash.MakeSeed()}, warm: spec.WarmupGets}
	known := map[string]uint32{}
	var value []byte
	get := func(key []byte) ([]byte, bool, error) {
		got, found, err := reader.Get(key, value[:0])
		value = got
		return got, found, err
	}
	err = accesses.Keys(spec.KeyScheme, get, list, func(key []byte, found bool) error {
		i, seen := known[string(key)]
		if !seen {
			if len(p.bytes)+len(key) > maxSampleBytes {
				return fmt.Errorf("the list asks for more than %d MiB of different keys: use one of fewer blocks", maxSampleBytes>>20)
			}
			i = uint32(len(p.ends))
			known[string(bytes.Clone(key))] = i
			p.bytes = append(p.bytes, key...)
			p.ends, p.absent, p.longest = append(p.ends, uint32(len(p.bytes))), append(p.absent, !found), max(p.longest, len(key))
		}
		p.order = append(p.order, i)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.AccessList, err)
	}
	if len(p.order) == 0 {
		return nil, errors.New(spec.AccessList + ": no block accesses anything")
	}
	p.seen = make([]atomic.Uint64, len(p.ends))
	return p, nil
}

// playing plays a worker's share: the workers take turns.
type playing struct {
	*played
	at, step uint64
}

func (p *played) source(phase, worker, threads int) *playing {
	at := uint64(worker)
	if phase == workload.MeasurePhase {
		at += p.warm
	}
	return &playing{played: p, at: at, step: uint64(threads)}
}

func (p *playing) next(c *choice) {
	i := p.order[p.at%uint64(len(p.order))]
	p.at += p.step
	c.key, c.index, c.absent = p.key(uint64(i)), uint64(i), p.absent[i]
}

func (p *playing) check(asked *choice, value []byte) error {
	return (&sampled{sample: p.sample}).check(asked, value)
}

func (p *playing) mayExist() bool { return false }

func playedKeys(reader engine.Reader, spec *Spec, choice workload.Choice) (*keyset, error) {
	p, err := readPlayed(reader, spec)
	if err != nil {
		return nil, err
	}
	choice.Keys = p.len()
	return &keyset{choice: choice, sample: p.sample, played: p, threads: spec.Threads}, nil
}
