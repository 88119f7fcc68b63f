package blockbased

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// What a program of C++ printed that was built with libstdc++: the same numbers, put into a
// std::unordered_map and erased from it.
func TestHashOrder(t *testing.T) {
	var out strings.Builder
	var h hashOrder
	x := uint64(12345)
	for i := range 400 {
		x = x*6364136223846793005 + 1442695040888963407
		key := x >> 40 % 2000
		if x>>20%4 == 0 {
			h.erase(key)
		} else {
			h.insert(key)
		}

		if i%57 == 0 || i == 399 {
			fmt.Fprintf(&out, "%d %d:", i, max(1, h.buckets))
			for _, key := range h.keys() {
				fmt.Fprintf(&out, " %d", key)
			}
			out.WriteString("\n")
		}
	}

	const want = "09440b3f57507242d58ac1ddd5bc47159ee4c9f2b486015ea96656aa78e79bfb"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(out.String()))); got != want {
		t.Errorf("%s, want %s:\n%s", got, want, out.String())
	}
}
