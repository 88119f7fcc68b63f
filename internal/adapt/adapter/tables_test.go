package adapter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestParseMix(t *testing.T) {
	for text, want := range map[string]string{
		"":            "[{ 1}]",
		"a":           "[{a 1}]",
		"a=1":         "[{a=1 1}]",
		"a=70;b=30":   "[{a 0.7} {b 0.3}]",
		"a=b=1;c=3":   "[{a=b 0.25} {c 0.75}]",
		"a=70%;b=30%": "[{a 0.7} {b 0.3}]",
		"a;b":         "proportion of each",
		"a=0;b=1":     "invalid proportion",
		"a=x;b=1":     "invalid proportion",
		"a=1;a=2":     "listed twice",
		"=1;a=2":      "proportion of each",
	} {
		mix, err := ParseMix(text)
		if got := fmt.Sprint(mix); err == nil && got != want ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestMix(t *testing.T) {
	mix, err := ParseMix("a=3;b=1")
	if err != nil {
		t.Fatal(err)
	}

	counts := map[int]int{}
	err = SampleMix(mix, 100, func(table, n int, yield func([]byte) error) error {
		for range n {
			if err := yield([]byte{byte('a' + table)}); err != nil {
				return err
			}
		}

		return nil
	}, func(mixed []byte) error {
		table, key, known := Unmix(len(mix), mixed)
		if !known || !bytes.Equal(key, []byte{byte('a' + table)}) {
			t.Errorf("%q: table %d, key %q, %v", mixed, table, key, known)
		}

		counts[table]++
		return nil
	})

	if err != nil || counts[0] != 75 || counts[1] != 25 {
		t.Errorf("%v keys of each table, %v; want 75 and 25", counts, err)
	}

	if _, _, known := Unmix(2, []byte{2, 1}); known {
		t.Error("a table that is not in the mix")
	}
}
