//go:build cgo

package mmapdb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// read opens the database, samples its keys, as a run on a database of another program does, drops
// all of it from the page cache and gets random keys.
func read(e engine.Engine, dir, profile string) (c counted, err error) {
	ctx := context.Background()
	if _, err := host.Evict(ctx, dir); err != nil {
		return c, err
	}

	db, err := e.Open(ctx, engine.Options{Dir: dir, Profile: profile})
	if err != nil {
		return c, err
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	reader, err := db.Reader()
	if err != nil {
		return c, err
	}

	if err := db.(engine.KeySampler).SampleKeys(ctx, gets, 1,
		func([]byte) error { return nil }); err != nil {
		return c, err
	}

	if _, err := host.Evict(ctx, dir); err != nil {
		return c, err
	}

	if c.Left, _, err = host.Resident(dir); err != nil {
		return c, err
	}

	device, err := host.DeviceOf(dir)
	if err != nil {
		return c, err
	}

	begin, err := now(device)
	if err != nil {
		return c, err
	}

	rng := rand.New(rand.NewPCG(5, 6))
	value := make([]byte, 0, 256)
	for i := range gets {
		var found bool
		value, found, err = reader.Get(keyOf(rng.Uint64N(keys)), value)
		if err != nil || !found {
			return c, fmt.Errorf("get %d: found %t, error %w", i, found, err)
		}

		if i == 0 {
			first, err := host.ProcessNow()
			if err != nil {
				return c, err
			}
			c.First = host.Between(begin.process, first)
		}
	}

	end, err := now(device)
	if err != nil {
		return c, err
	}

	c.Process = host.Between(begin.process, end.process)
	c.Device = host.Between(begin.device, end.device)
	accesses := db.Counters().Accesses
	if accesses == nil {
		return c, errors.New("the engine does not tell the pages that Gets touch")
	}

	c.Accesses = accesses[engine.Page]
	return c, nil
}

type counters struct {
	process result.ProcessIO
	device  result.DeviceIO
}

func now(d host.Device) (c counters, err error) {
	if c.process, err = host.ProcessNow(); err != nil {
		return c, err
	}
	c.device, err = d.Now()
	return c, err
}
