//go:build !cgo

package cachesim

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	pebble1 "github.com/cockroachdb/pebble"
	pebble2 "github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/internal/base/testring"
)

// Pebble exports its caches but not a way to make their values, so these tests
// build values by reflection. That is safe only where values are Go memory:
// without cgo.

// TestClockProIsPebblesCache plays random traces to the real caches: every hit
// and miss must agree.
func TestClockProIsPebblesCache(t *testing.T) {
	seeds := uint64(2)
	if !testring.All() {
		seeds = 1
	}

	for _, c := range []struct {
		name                 string
		cacheBytes, reserved int64
		blocks               uint64
		theta                float64 // of popularity: 0 is uniform
		maxBlockBytes        int
	}{
		{"tiny, blocks larger than shards", 40_000, 0, 300, 1.0, 30_000},
		{"just too small for the popular blocks", 1 << 20, 0, 300, 0.3, 8_000},
		{"mixed sizes", 1 << 20, 0, 4000, 0.9, 6_000},
		{"reserved for memtables", 2 << 20, 256 << 10, 4000, 0.9, 6_000},
		{"all reserved", 1 << 20, 2 << 20, 400, 0.9, 600},
		{"everything fits", 64 << 20, 0, 1000, 0.5, 4_000},
		{"uniform", 1 << 20, 0, 3000, 0, 5_000},
	} {
		for _, version := range []PebbleVersion{PebbleV1, PebbleV2} {
			for seed := range seeds {
				var real realCache
				if version == PebbleV1 {
					real = newRealCache1(t, c.cacheBytes)
				} else {
					real = newRealCache2(t, c.cacheBytes)
				}

				real.reserve(int(c.reserved))
				shards := newShards(Setup{
					Policy:        version.Policy(),
					Cores:         runtime.GOMAXPROCS(0),
					ReservedBytes: c.reserved,
				}, c.cacheBytes)

				random := rand.New(rand.NewPCG(seed, 7))
				popular := newZipf(random, int(c.blocks), c.theta)
				for i := range 25_000 {
					id := popular.next()
					file, offset := uint64(id%17)+1, uint64(id/17)*4096
					bytes := 1 + int(uint64(id)*2654435769%uint64(c.maxBlockBytes))
					shard := shards[version.Shard(file, offset, len(shards))]
					have := shard.Access(uint32(id), int32(bytes))
					want := real.access(file, offset, bytes)
					if have != want {
						t.Fatalf(
							"v%d %s, seed %d: access %d to block %d: simulated hit %v, real %v",
							version,
							c.name,
							seed,
							i,
							id,
							have,
							want,
						)
					}
				}

				var used int64
				for _, shard := range shards {
					used += shard.UsedBytes()
				}

				if used != real.size() {
					t.Errorf("v%d %s, seed %d: %d bytes used, real %d", version, c.name, seed,
						used, real.size())
				}
			}
		}
	}
}

// realCache is one of Pebble's.
type realCache interface {
	access(file, offset uint64, bytes int) (hit bool)
	reserve(bytes int)
	size() int64
}

type realCache1 struct {
	*pebble1.Cache
	id  uint64
	set reflect.Value
}

func newRealCache1(t *testing.T, bytes int64) realCache {
	cache := pebble1.NewCache(bytes)
	t.Cleanup(cache.Unref)
	return &realCache1{cache, cache.NewID(), reflect.ValueOf(cache).MethodByName("Set")}
}

func (c *realCache1) reserve(bytes int) { c.Reserve(bytes) }
func (c *realCache1) size() int64       { return c.Size() }

func (c *realCache1) access(file, offset uint64, bytes int) bool {
	number := reflect.New(c.set.Type().In(1)).Elem()
	*(*uint64)(number.Addr().UnsafePointer()) = file
	key := []reflect.Value{reflect.ValueOf(c.id), number, reflect.ValueOf(offset)}
	handle := reflect.ValueOf(c.Cache).MethodByName("Get").Call(key)[0]
	hit := !handle.MethodByName("Get").Call(nil)[0].IsNil()
	if !hit {
		handle = c.set.Call(append(key, newValue(c.set.Type().In(3), bytes)))[0]
	}

	if hit || bytes > 0 {
		handle.MethodByName("Release").Call(nil)
	}

	return hit
}

type realCache2 struct {
	cache    *pebble2.Cache
	get, set reflect.Value
}

func newRealCache2(t *testing.T, bytes int64) realCache {
	cache := pebble2.NewCache(bytes)
	handle := cache.NewHandle()
	t.Cleanup(func() { handle.Close(); cache.Unref() })
	v := reflect.ValueOf(handle)
	return &realCache2{cache, v.MethodByName("Get"), v.MethodByName("Set")}
}

func (c *realCache2) reserve(bytes int) { c.cache.Reserve(bytes) }
func (c *realCache2) size() int64       { return c.cache.Size() }

func (c *realCache2) access(file, offset uint64, bytes int) bool {
	number := reflect.New(c.get.Type().In(0)).Elem()
	number.SetUint(file)
	key := []reflect.Value{number, reflect.ValueOf(offset)}
	value := c.get.Call(key)[0]
	hit := !value.IsNil()
	if !hit {
		value = newValue(c.set.Type().In(2), bytes)
		c.set.Call(append(key, value))
	}

	value.MethodByName("Release").Call(nil)
	return hit
}

// newValue makes a *cache.Value of n bytes with one reference.
func newValue(pointer reflect.Type, n int) reflect.Value {
	value := reflect.New(pointer.Elem())
	for i := range pointer.Elem().NumField() {
		field := pointer.Elem().Field(i)
		at := unsafe.Add(value.UnsafePointer(), field.Offset)
		switch field.Name {
		case "buf":
			*(*[]byte)(at) = make([]byte, n)
		case "ref":
			*(*int32)(at) = 1
		}
	}

	return value
}
