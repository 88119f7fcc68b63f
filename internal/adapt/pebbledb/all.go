package pebbledb

import (
	"slices"

	"github.com/statelab/statelab/internal/chain/clients"
)

// ProfilesV1 are the profiles of Pebble v1; the first is the default.
func ProfilesV1() []Profile {
	return []Profile{BenchKVDB(), GethV1(), OpGeth(), BSC(), Default()}
}

// ProfilesV2 are the profiles of Pebble v2, whose newest format of a database is newestFormat; the
// first is the default.
func ProfilesV2(newestFormat uint64) []Profile {
	return []Profile{BenchKVDB(), GethV2(), Sei(), Columnar(newestFormat), Default()}
}

// Profiles are those of both versions, each once.
func Profiles() []Profile {
	return []Profile{BenchKVDB(), GethV1(), GethV2(), OpGeth(), BSC(), Sei(),
		Columnar(FirstFormatOfV2), Default()}
}

// OnlyV2 reports whether a profile is of version 2 alone.
func OnlyV2(name string) bool {
	is := func(p Profile) bool { return p.Name == name }
	return slices.ContainsFunc(ProfilesV2(FirstFormatOfV2), is) &&
		!slices.ContainsFunc(ProfilesV1(), is)
}

// ClientOf is the client whose options a profile has; "" if it has those of none.
func ClientOf(name string) clients.Client {
	for _, p := range Profiles() {
		if p.Name == name {
			return clients.Client(p.Client)
		}
	}
	return ""
}
