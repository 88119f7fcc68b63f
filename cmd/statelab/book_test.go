package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// The chapters whose commands a reader types, each from an empty folder.
var chapters = []string{"tour.md", "choosing-a-cache.md", "comparing-engines.md", "sharing.md"}

var typed = regexp.MustCompile(`(?m)^    \$ ((?:statelab|mkdir|mv) .*)$`)

// fewer makes what a chapter measures take a third of the time.
var fewer = strings.NewReplacer(" --repeats 5", " --repeats 2", "--gets 50k", "--gets 10k",
	"--gets 20k", "--gets 5k",
	"--gets 100k --warmup 200k", "--gets 20k --warmup 40k", "--gets 100k", "--gets 30k",
	"goleveldb --keys 300k", "goleveldb --keys 60k")

// TestTheBooksCommandsRun carries out every command that a chapter shows behind a "$", in order.
func TestTheBooksCommandsRun(t *testing.T) {
	testring.Outer(t, "it runs every command of the documents")
	for _, chapter := range chapters {
		t.Run(chapter, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("../../docs", chapter))
			if err != nil {
				t.Fatal(err)
			}

			if testing.Short() { // every command, with fewer Gets and repeats
				text = []byte(fewer.Replace(string(text)))
			}

			commands := typed.FindAllSubmatch(text, -1)
			if len(commands) == 0 {
				t.Fatal("no commands found")
			}

			dir := t.TempDir()
			for _, found := range commands {
				words := strings.Fields(string(found[1]))
				if testing.Short() && words[1] == "sweep" && !slices.Contains(words, "--warmup") {
					words = append(words, "--warmup", "5k")
				}

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
