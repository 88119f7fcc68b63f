package statelab_test

import (
	"os"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/statelab/statelab/internal/explain/paper"
	"github.com/statelab/statelab/internal/observe/host"
)

// TestCitationIsOfTheNewestRelease: CITATION.cff names the version of this program, and the day on
// which the changelog says it was released.
func TestCitationIsOfTheNewestRelease(t *testing.T) {
	text, err := os.ReadFile("CITATION.cff")
	if err != nil {
		t.Fatal(err)
	}

	var citation struct {
		Format   string                  `yaml:"cff-version"`
		Message  string                  `yaml:"message"`
		Title    string                  `yaml:"title"`
		Authors  []struct{ Name string } `yaml:"authors"`
		Version  string                  `yaml:"version"`
		Released string                  `yaml:"date-released"`
		Home     string                  `yaml:"repository-code"`
	}
	if err := yaml.Unmarshal(text, &citation); err != nil {
		t.Fatal(err)
	}

	// These are what version 1.2.0 of the format demands.
	if citation.Format != "1.2.0" || citation.Message == "" || citation.Title == "" ||
		len(citation.Authors) == 0 {
		t.Errorf("CITATION.cff lacks a field that its format demands: %+v", citation)
	}

	if c := citation; c.Title != paper.Title || c.Home != paper.Home ||
		len(c.Authors) != 1 || c.Authors[0].Name != paper.Author {
		t.Errorf("report --cite prints %q by %q at %s, and CITATION.cff has %+v", paper.Title,
			paper.Author, paper.Home, c)
	}

	log, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}

	heading := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$`)
	newest := heading.FindSubmatch(log)
	if newest == nil {
		t.Fatal("CHANGELOG.md has no heading of a release with its day")
	}

	if version := string(newest[1]); version != citation.Version || version != host.Version {
		t.Errorf("the changelog's newest release is %s, CITATION.cff has %s, and the program %s",
			version, citation.Version, host.Version)
	}

	if day := string(newest[2]); day != citation.Released {
		t.Errorf("released on %s by the changelog, and on %s by CITATION.cff", day,
			citation.Released)
	}
}
