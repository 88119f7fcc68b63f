package rocksoptions

import "testing"

// A flush counts as a level below 0: with bloom_before_level=0 tables of L0 alone have Bloom
// filters, with -1 none.
func TestRibbonLevels(t *testing.T) {
	for policy, want := range map[string][3]bool{ // L0, L1, L2
		"ribbonfilter:10:0":                          {false, true, true},
		"ribbonfilter:10:-1":                         {true, true, true},
		"ribbonfilter:10:2":                          {false, false, true},
		"{id=ribbonfilter:10;bloom_before_level=0;}": {false, true, true},
		"bloomfilter:10:false":                       {false, false, false},
	} {
		f := ParseFilter(policy)
		for level, ribbon := range want {
			if f.ribbonOn(level) != ribbon {
				t.Errorf("%s: level %d has a ribbon filter: %v", policy, level, !ribbon)
			}
		}
	}
}
