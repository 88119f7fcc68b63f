package unit

import (
	"fmt"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"512B":     512,
		"1k":       1024,
		"1,500KiB": 1500 << 10,
		" 0 ":      0,
		"64MiB":    64 << 20,
		"512MB":    512e6,
		"1.5GiB":   3 << 29,
		"2 GiB":    2 << 30,
		"0":        0,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}

	for _, text := range []string{"", "3q", "-1", "MiB", "1e40", "NaN", "NaNMiB", "InfMiB", "1/2",
		"1/2MiB", "-1MiB", "1,5GiB", "9999999TiB", "1 TiB 2"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestSizesWithoutAUnitAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"64":   `invalid cache size "64": add a unit (examples: 64MiB, 0.1%)`,
		"1e6":  `invalid cache size "1e6": add a unit (examples: 64MiB, 0.1%)`,
		"3q":   `invalid cache size "3q" (examples: 64MiB, 0.1%)`,
		"-1":   `invalid cache size "-1" (examples: 64MiB, 0.1%)`,
		"NaN":  `invalid cache size "NaN" (examples: 64MiB, 0.1%)`,
		"0.00": "",
	} {
		_, err := ParseSize("cache size", text, "64MiB, 0.1%")
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}

	for text, want := range map[string]int64{
		"1048576": 1 << 20,
		"64MiB":   64 << 20,
		"1e6":     1e6,
		"0":       0,
	} {
		if got, err := ParseBytes(WithUnit(text)); err != nil || got != want {
			t.Errorf("stored %q = %d, %v; want %d", text, got, err, want)
		}
	}

	for _, text := range []string{"", "NaN", "-1", "3q"} {
		if got, err := ParseBytes(WithUnit(text)); err == nil {
			t.Errorf("stored %q was read as %d", text, got)
		}
	}
}

func TestParseCountAndPercent(t *testing.T) {
	for text, want := range map[string]uint64{
		"500k":  500_000,
		"5M":    5_000_000,
		"2B":    2_000_000_000,
		"1_000": 1000,
	} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}

	if share, ok, err := ParsePercent("0.1%"); share != 0.001 || !ok || err != nil {
		t.Errorf("0.1%% = %v, %v, %v", share, ok, err)
	}

	if _, ok, _ := ParsePercent("64MiB"); ok {
		t.Error("64MiB was taken for a percentage")
	}

	if _, _, err := ParsePercent("x%"); err == nil {
		t.Error("x% was accepted")
	}
}

func TestPrinting(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(1023): "1023 B", Bytes(64 << 20): "64.0 MiB", Bytes(1536): "1.50 KiB",
		Count(81204): "81,204", Count(-1234567): "-1,234,567", Count(999): "999",
		ShortCount(5e6): "5M", ShortCount(2.5e3): "2.5k", ShortCount(20e9): "20B",
		Nanos(850): "850 ns", Nanos(12300): "12.3 us",
		Significant(0.9996, 3): "1.00", Significant(1234.5, 3): "1230", Significant(0, 3): "0",
	} {
		if got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1.5GiB")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseBytes(text); err == nil && n < 0 {
			t.Errorf("%q gave %d", text, n)
		}
	})
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"default": "default",
		"\x06":    `\x06`,
		"\n":      `\x0a`,
		"\b":      `\x08`,
		"a \"b\"": "a \"b\"",
		`a\b`:     `a\b`,
		"\xff":    `\xff`,
		"ä":       "ä",
		"":        "",
	} {
		if got := Printable(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}

		if !Is(name, name) || !Is(name, want) || Is(name, "other") {
			t.Errorf("%q is not %q", name, want)
		}
	}

	if !Is("\b", `\b`) || !Is("\b", `\x08`) || !Is(`\x08`, `\b`) || Is("\b", `\x09`) {
		t.Error("spellings of a byte differ")
	}
}
