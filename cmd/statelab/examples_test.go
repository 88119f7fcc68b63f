package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// short is how an example runs in a test: the same commands on less data.
var short = map[string][]string{
	"cache-size":          {"KEYS=300k"}, // more than its memory holds
	"disk-limit":          {"KEYS=50k", "GETS=1k", "SECONDS_EACH=0.05"},
	"pebble-versions":     {"KEYS=50k", "GETS=1k", "PAIRS=2"},
	"slower-lookups":      {"KEYS=50k", "GETS=2k"},
	"state-trees":         {"VERSIONS=3", "SCALE=0.001"},
	"twenty-billion-keys": {"KEYS=1M", "GETS=10k"},
}

var (
	answered = regexp.MustCompile(`(?m)^# Answer: (.*)$`)
	variable = regexp.MustCompile(`\b([A-Z_]+)=\$\{[A-Z_]+:-([^}]*)\}`)
	shown    = regexp.MustCompile(`(?m)^\$ (statelab .*)$`)
)

// TestExamples runs every example in a short form. The output stored beside it answers the
// question too, and is of the same commands with the values that the script has.
func TestExamples(t *testing.T) {
	testring.Outer(t, "it runs every example")
	scripts, err := filepath.Glob("../../examples/*/run.sh")
	if err != nil || len(scripts) != len(short) {
		t.Fatalf("%d examples, %d of them here: %v", len(scripts), len(short), err)
	}

	path := filepath.Dir(binary) + ":" + absolute("../../bin") + ":" + os.Getenv("PATH")
	for _, script := range scripts {
		name := filepath.Base(filepath.Dir(script))
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}

			answer := regexp.MustCompile(string(answered.FindSubmatch(text)[1]))
			stored, err := os.ReadFile(filepath.Join(filepath.Dir(script), "output.txt"))
			if err != nil || !answer.Match(stored) {
				t.Errorf("output.txt does not answer with %q: %v", answer, err)
			}

			if want, is := commandsOf(string(text)),
				shown.FindAllString(unquoted.Replace(string(stored)),
					-1); strings.Join(want, "\n") != strings.Join(is, "\n") {
				t.Errorf("output.txt is of other commands; make it again with examples/run "+
					"%s\nscript: %q\noutput: %q", name, want, is)
			}

			command := exec.Command("sh", absolute(script))
			command.Dir, command.Env = t.TempDir(),
				append(append(os.Environ(), "PATH="+path), short[name]...)
			out, err := command.CombinedOutput()
			if err != nil && strings.Contains(string(out), "O_DIRECT") {
				t.Skipf("the temporary folder has no O_DIRECT: %s", out)
			}

			if err != nil || !answer.Match(out) {
				t.Errorf("%v, no answer with %q in\n%s", err, answer, out)
			}
		})
	}
}

// Quotes are where bash -x puts them, or the script.
var unquoted = strings.NewReplacer(`"`, "", `'`, "")

// commandsOf are the commands of a script as bash -x shows them, with its own values and
// without quotes.
func commandsOf(script string) (list []string) {
	values := map[string]string{}
	for _, found := range variable.FindAllStringSubmatch(script, -1) {
		values[found[1]] = found[2]
	}

	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n\t", "")) {
		line = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line),
			"if "), "; then"), "\n")
		if strings.HasPrefix(line, "statelab ") {
			line = os.Expand(line, func(name string) string { return values[name] })
			list = append(list, "$ "+unquoted.Replace(line))
		}
	}

	return list
}

// A name in quotes is one word of the output's command, too.
func TestCommandsOfAScript(t *testing.T) {
	got := commandsOf("A=${A:-5k} B=${B:-x,y}\nstatelab load --keys \"$A\"\nif statelab compare " +
		"'a > 2' \"$B\"; then\n")
	if strings.Join(got, "|") != "$ statelab load --keys 5k|$ statelab compare a > 2 x,y" {
		t.Errorf("%q", got)
	}
}
