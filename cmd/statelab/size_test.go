package main

import (
	"debug/elf"
	"testing"
)

// TestProgramIsSmall adds up what a stripped program has: symbols and notes for debuggers are left
// out.
func TestProgramIsSmall(t *testing.T) {
	const most = 44_500_000
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close()
	size := uint64(0)
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			size += s.FileSize
		}
	}

	if size > most {
		t.Errorf("statelab has %d bytes, more than %d: go tool nm -size -sort size shows what is "+
			"large", size, most)
	}

	t.Logf("%d bytes", size)
}
