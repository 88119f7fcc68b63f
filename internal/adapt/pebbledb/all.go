package pebbledb

// Profiles are those of both versions.
func Profiles() []Profile {
	return []Profile{BenchKVDB(), GethV1(), GethV2(), OpGeth(), BSC(), Sei(), Columnar(FirstFormatOfV2), Default()}
}
