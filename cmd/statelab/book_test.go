package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The chapters whose commands a reader types, each from an empty folder.
var chapters = []string{"tour.md", "choosing-a-cache.md", "comparing-engines.md", "sharing.md"}

var typed = regexp.MustCompile(`(?m)^    \$ ((?:statelab|mkdir|mv) .*)$`)

// TestTheBooksCommandsRun carries out every command that a chapter shows behind a "$", in order.
func TestTheBooksCommandsRun(t *testing.T) {
	for _, chapter := range chapters {
		t.Run(chapter, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("../../docs", chapter))
			if err != nil {
				t.Fatal(err)
			}
			if testing.Short() { // every command, with fewer repeats
				text = bytes.ReplaceAll(text, []byte(" --repeats 5"), []byte(" --repeats 2"))
			}
			commands := typed.FindAllSubmatch(text, -1)
			if len(commands) == 0 {
				t.Fatal("no commands found")
			}
			dir := t.TempDir()
			for _, found := range commands {
				words := strings.Fields(string(found[1]))
				if words[0] == "statelab" {
					words[0] = binary
				}
				command := exec.Command(words[0], words[1:]...)
				command.Dir = dir
				output, err := command.CombinedOutput()
				if err != nil && strings.Contains(string(output), "O_DIRECT") {
					t.Skipf("the temporary folder has no O_DIRECT: %s", output)
				}
				if err != nil {
					t.Fatalf("%s: %v\n%s", found[1], err, output)
				}
			}
		})
	}
}
