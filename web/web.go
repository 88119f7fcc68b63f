// Package web holds the page templates, style sheets and scripts that are built into
// the binary, so that every page works without a network.
package web

import _ "embed"

// Report is the html/template of a report, ReportStyle its style sheet and ReportScript
// what saves its tables; Serve and the others are of the list of results.
var (
	//go:embed report.html
	Report string
	//go:embed report.css
	ReportStyle string
	//go:embed report.js
	ReportScript string
	//go:embed serve.html
	Serve string
	//go:embed serve.css
	ServeStyle string
	//go:embed serve.js
	ServeScript string
)

// ChartLibrary is uPlot as its authors publish it (see uplot/README.md), ChartStyle its style
// sheet, and ChartScript what draws the charts of a page with it.
var (
	//go:embed uplot/uPlot.iife.min.js
	ChartLibrary string
	//go:embed uplot/uPlot.min.css
	ChartStyle string
	//go:embed charts.js
	ChartScript string
)
