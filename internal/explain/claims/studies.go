package claims

// Study is a published comparison of two engines by threads: its figures on its
// authors' machine, whose shape ours can be compared with.
type Study struct {
	Of      [2]string // families of engines
	What    string    // their set-up
	ByCache bool      // points differ in the page cache too
	Points  []StudyPoint
}

// StudyPoint is what a study measured of an engine. A figure without a unit was not
// published.
type StudyPoint struct {
	Engine    string
	Threads   int
	PageCache string
	Kops, CPU Published
	Mean      Published
}

// Sources of the studies.
const (
	threadStudy = "the thread study: db_bench of its authors"
	ioarena     = "ioarena"
)

// Studies are the figures of the thread study and of ioarena, to three digits.
func Studies() []Study {
	kops := func(low, high float64, source string) Published { return Published{low, high, "Kops/s", source} }
	cpu := func(low, high float64, source string) Published { return Published{low, high, "%", source} }
	thread := func(engine string, threads int, cache string, low, high, cpuLow, cpuHigh float64) StudyPoint {
		return StudyPoint{Engine: engine, Threads: threads, PageCache: cache, Kops: kops(low, high, threadStudy), CPU: cpu(cpuLow, cpuHigh, threadStudy)}
	}
	point := func(engine string, threads int, k, mean, percent float64) StudyPoint {
		return StudyPoint{Engine: engine, Threads: threads, Kops: kops(k, k, ioarena), CPU: cpu(percent, percent, ioarena),
			Mean: Published{mean, mean, "us", ioarena}}
	}
	return []Study{
		{Of: [2]string{"pebble", "rocksdb"}, ByCache: true,
			What: "2 B keys, 10 M random reads, 100,000 handles; Pebble 236 GB in Go, RocksDB 235 GB in Zig",
			Points: []StudyPoint{
				thread("pebble", 32, "cold", 286, 286, 40, 40), thread("rocksdb", 32, "cold", 264, 264, 40, 40),
				thread("pebble", 64, "cold", 297, 297, 40, 40), thread("rocksdb", 64, "cold", 293, 384, 97, 97),
				thread("pebble", 32, "warm", 350, 350, 50, 50), thread("rocksdb", 32, "warm", 323, 323, 60, 70),
				thread("pebble", 64, "warm", 364, 364, 50, 50), thread("rocksdb", 64, "warm", 353, 421, 98, 98),
			}},
		{Of: [2]string{"rocksdb", "mdbx"},
			What: "ioarena, 1.6 B entries, 16-byte keys, 32-byte values; RocksDB ~84 GB, MDBX ~128 GB; its authors call RocksDB at 64 threads imprecise",
			Points: []StudyPoint{
				point("rocksdb", 2, 12, 160, 1.1), point("mdbx", 2, 21, 85, 0.8),
				point("rocksdb", 4, 30, 130, 2.2), point("mdbx", 4, 48, 84, 1.3),
				point("rocksdb", 8, 85, 92, 4.5), point("mdbx", 8, 97, 83, 2.5),
				point("rocksdb", 16, 180, 90, 8), point("mdbx", 16, 180, 86, 6),
				point("rocksdb", 32, 300, 110, 24), point("mdbx", 32, 360, 90, 13),
				point("rocksdb", 64, 350, 100, 45), point("mdbx", 64, 800, 80, 33),
			}},
	}
}
