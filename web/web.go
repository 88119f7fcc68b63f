// Package web holds the page templates and style sheets that are built into
// the binary, so that every page works without a network.
package web

import _ "embed"

// Report is the html/template of a report; ReportStyle is its style sheet.
var (
	//go:embed report.html
	Report string
	//go:embed report.css
	ReportStyle string
)
