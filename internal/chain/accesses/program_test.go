package accesses

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program's list is read to its end; a program that fails, before its list or after it, is an
// error in its own words, and one that goes on is ended.
func TestProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.slal")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	list, err := NewWriter(file, Info{Form: "made here"})
	if err != nil {
		t.Fatal(err)
	}

	for number := range uint64(3) {
		if err := list.Add(&Block{Number: number}); err != nil {
			t.Fatal(err)
		}
	}

	if err := list.Close(); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		script string
		blocks int
		says   string
	}{
		{`cat "$0"`, 3, "EOF"},
		{`echo "no such table" >&2; exit 1`, 0, "no such table"},
		{`cat "$0"; echo "the last file is damaged" >&2; exit 1`, 3, "the last file is damaged"},
		{`cat "$0"; exit 7`, 3, "exit status 7"},
		{`head -c 60 "$0"; kill -9 $$`, 0, "the file is incomplete"},
		{`head -c 60 "$0"; cat /dev/zero`, 0, "not an access list"},
	} {
		blocks := 0
		p, err := OpenProgram(t.Context(), "sh", "-c", c.script, path)
		for err == nil {
			if err = p.Next(new(Block)); err == nil {
				blocks++
			}
		}

		if blocks != c.blocks || !strings.Contains(err.Error(), c.says) ||
			c.says == "EOF" && err != io.EOF {
			t.Errorf("%s: %d blocks, %v", c.script, blocks, err)
		}

		if p != nil {
			if err := p.Close(); err != nil {
				t.Errorf("%s: %v", c.script, err)
			}
		}
	}

	p, err := OpenProgram(t.Context(), "sh", "-c", `cat "$0"; exec sleep 60`, path)
	if err != nil || p.Info().Form != "made here" {
		t.Fatal(err)
	}

	if err := p.Close(); err != nil || p.command.ProcessState == nil {
		t.Errorf("%v: it goes on", err)
	}
}
