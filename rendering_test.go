package statelab_test

import (
	"slices"
	"strings"
	"testing"
)

// TestOnlyRenderersLayOut: a kind of result builds a document; what a terminal, a page or Markdown
// needs is known to internal/report/render alone. The other exceptions are web, which has the
// page's template, serve, whose list of folders is no document, doc, whose charts draw themselves
// as SVG, console, which draws progress, and blockreads, whose table is for other programs, which
// are not to link our pages.
func TestOnlyRenderersLayOut(t *testing.T) {
	allowed := map[string][]string{
		"text/tabwriter": {"blockreads"},
		"html/template": {"internal/report/render", "internal/report/doc",
			"internal/explain/serve"},
		"golang.org/x/term": {"internal/base/console"},
	}

	for name, p := range packages(t) {
		for imported, users := range allowed {
			if slices.Contains(p.Imports, imported) && !slices.Contains(users, name) {
				t.Errorf("%s imports %s: build a doc.Document, and show it with "+
					"internal/report/render (allowed: %s)",
					name, imported, strings.Join(users, ", "))
			}
		}
	}
}
