package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/explain/serve"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/explain/iavlbench"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/explain/kvdblog"
	"github.com/statelab/statelab/internal/explain/paper"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
)

func (a *app) reportVerb() *cobra.Command {
	var out, picture, tables, tidy, markdown string
	var listen experiment.Text
	var force, serves, cite, asJSON bool
	cmd := &cobra.Command{
		Use:   "report FOLDER...",
		Short: "Explain results as text and an offline page; --serve: local pages",
		Long: `Report explains what is in result folders of any kind, without measuring anything.

  statelab report S                                (writes S/report.html)
  statelab report MINE THEIRS --out both.html      (one picture, x = % of the database)
  statelab report S --picture curve.svg --csv tables.csv
  statelab report S --tidy figures.csv             (a row for each figure, for R or pandas)
  statelab report S --json                         (the figures of all points, for scripts)
  statelab report S --cite --picture curve.svg --tidy figures.csv >> refs.bib   (BibTeX)
  statelab report S --markdown result.md           (for an issue or a wiki)
  statelab report --serve                          (local pages of all results below statelab-runs)
  statelab report --serve results --listen 192.168.1.5:8080   (for others, too: anybody there
                                                    can read the results)

With --serve, the pages list every folder of results below FOLDER, open their reports,
overlay chosen runs, and show a sweep while it is measured. They load nothing from the
network.`,
	}

	cmd.Flags().StringVar(&out, "out", "",
		"the HTML file (default: report.html in the first folder)")
	cmd.Flags().StringVar(&picture, "picture", "", "also draw the main chart into this file, as "+
		"SVG for one column of a paper, and print its caption (the page's button saves PNG)")
	cmd.Flags().BoolVar(&cite, "cite", false, "print BibTeX entries of the program and of the "+
		"results, with version, commit and seed, in place of the report")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results of one folder with the "+
		"figures of all points as JSON, as the command that measured does, and nothing else")
	cmd.Flags().StringVar(&tidy, "tidy", "", "also write all figures as one table in long form "+
		"into this CSV file: a row for each figure of each point, with all axes and settings")
	cmd.Flags().BoolVar(&force, "force", false, "with --picture, --csv, --tidy or --markdown: "+
		"replace the file if it exists")
	cmd.Flags().StringVar(&tables, "csv", "", "also write all tables, with values in full, into "+
		"this CSV file")
	cmd.Flags().StringVar(&markdown, "markdown", "", "also write the report, without charts, "+
		"into this Markdown file")
	cmd.Flags().BoolVar(&serves, "serve", false, "serve pages of all results below a folder "+
		"(default: statelab-runs) until Ctrl-C")
	setting.Var(cmd.Flags(), &listen, setting.Address, "listen", ":8111",
		"with --serve: where, as :PORT for this machine only, or HOST:PORT")
	return a.checked(cmd, func(m *mistakes, folders []string) error {
		if serves {
			m.Refuse(cmd.Flags(), "not with --serve", "out", "picture", "csv", "tidy", "markdown",
				"cite", "json", "force")
			return a.serve(m, folders, listen.Value())
		}

		m.Refuse(cmd.Flags(), "only with --serve", "listen")
		if len(folders) == 0 {
			m.Add("no folder given: statelab report S")
		}

		for _, folder := range folders {
			m.Readable("", folder)
		}

		if asJSON {
			m.Refuse(cmd.Flags(), "not with --json, which prints JSON only", "out", "picture",
				"csv", "tidy", "markdown", "cite", "force")
			if len(folders) > 1 {
				m.Add("--json: name one folder")
			}

			if err := m.Err(); err != nil {
				return err
			}

			r, err := kinds.Open(folders...)
			if err != nil {
				return err
			}

			return a.print(true, r)
		}

		if cite {
			m.Refuse(cmd.Flags(), "not with --cite, which prints BibTeX in place of the report",
				"out")
		}

		m.NewFileIf("picture", picture, &force)
		if picture != "" && filepath.Ext(picture) != ".svg" {
			m.Add("--picture: the picture is SVG: name a file that ends in .svg, not %s "+
				"(for a PNG, use the button \"save PNG\" of the page)", filepath.Base(picture))
		}

		m.NewFileIf("csv", tables, &force)
		m.NewFileIf("tidy", tidy, &force)
		m.NewFileIf("markdown", markdown, &force)
		if out != "" {
			if err := output.File(out, output.Reports); err != nil {
				m.Add("--out: %v", err)
			}
		}

		if err := m.Err(); err != nil {
			return err
		}

		captionTo := a.stdout
		if cite { // whose output is added to a file
			captionTo = a.stderr
			if err := paper.BibTeX(a.stdout, folders...); err != nil {
				return err
			}
		} else if err := a.explain(false, out, folders...); err != nil {
			return err
		}

		r, err := kinds.Open(folders...)
		if err != nil {
			return err
		}

		a.tellDoubts(r)
		text := ""
		if picture != "" {
			if text, err = paper.Caption(r, folders...); err != nil {
				return err
			}
		}

		for _, to := range []struct {
			path  string
			write func(io.Writer) error
		}{
			{tables, func(w io.Writer) error { return render.CSV(w, r.Document()) }},
			{tidy, func(w io.Writer) error { return paper.TidyCSV(w, folders...) }},
			{markdown, func(w io.Writer) error { return render.Markdown(w, r.Document()) }},
			{picture, func(w io.Writer) error { return paper.Picture(w, r, text) }},
		} {
			if to.path == "" {
				continue
			}

			write := func(f *os.File) error { return to.write(f) }
			if err := output.Write(to.path, commandline.Replaces(&force), write); err != nil {
				return err
			}
		}

		if picture != "" {
			fmt.Fprintf(captionTo, "picture: %s\ncaption: %s\nin LaTeX: %s\n", picture, text,
				paper.LaTeX(text))
		}

		return nil
	})
}

// tellDoubts tells the doubts about results, which a verb that measures told while it did.
func (a *app) tellDoubts(r kinds.Report) {
	p := a.progress()
	for _, w := range r.Document().Warnings {
		if w.Detail { // the text has the others
			p.Warn(engine.Warning{Text: w.Text, Remedy: w.Remedy})
		}
	}
}

// explain prints what folders say and writes their page, into the first of them
// unless a path is given.
func (a *app) explain(asJSON bool, path string, folders ...string) error {
	r, err := kinds.Open(folders...)
	if errors.Is(err, kinds.ErrOneAtATime) {
		return usage("%v", err)
	}

	if err != nil {
		return err
	}

	if err := a.print(asJSON, r); err != nil {
		return err
	}

	path = cmp.Or(path, filepath.Join(folders[0], result.ReportFile))
	if err := output.Write(path, output.Reports, func(f *os.File) error {
		return render.Page(f, r.Document())
	}); err != nil {
		return err
	}

	if !asJSON {
		fmt.Fprintf(a.stdout, "\nreport: %s\n", path)
	}

	if d, can := r.(interface{ Damaged() []string }); can && len(d.Damaged()) > 0 {
		return fmt.Errorf("the report leaves out what could not be read: %s",
			strings.Join(d.Damaged(), "; "))
	}

	return nil
}

func (a *app) importVerb() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "import LOGS --out DIR",
		Short: "Convert logs of bench_kvdb or iavl-bench into folders of results",
		Long: `Import reads bench_kvdb's RadmonRead_*.log, Properties_*.log and Write_*.log and
writes one sweep folder per dataset; or it reads iavl-bench's *.jsonl (--log-type
json) and writes one replay folder.

  statelab import LOGS --out published
  statelab report S published/200M published/2B --out both.html
  statelab import RUNS --out theirs
  statelab report R theirs --out both.html         (R: a folder of statelab replay)`,
	}

	cmd.Flags().StringVar(&out, "out", "", "new folder for the sweep folders")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		m.One(args, "folder of logs (example: statelab import LOGS --out DIR)")
		m.NewFolder(out, "published")
		if err := m.Err(); err != nil {
			return err
		}

		var folders []string
		err := output.WriteFolder(out, func(dir string) (err error) {
			logs := os.DirFS(args[0])
			if found, _ := fs.Glob(logs, iavlbench.Pattern); len(found) > 0 {
				return iavlbench.Import(logs, dir)
			}

			folders, err = kvdblog.Import(logs, dir)
			return err
		})
		if err != nil {
			return fmt.Errorf("import %s: %w", args[0], err)
		}

		if folders == nil {
			fmt.Fprintln(a.stdout, out)
		}

		for _, folder := range folders {
			fmt.Fprintln(a.stdout, filepath.Join(out, filepath.Base(folder)))
		}

		return nil
	})
}

// serve shows the results below a folder as local pages until the context ends.
func (a *app) serve(m *mistakes, args []string, listen string) error {
	root := "statelab-runs"
	if len(args) == 1 {
		root = args[0]
	} else if len(args) > 1 {
		m.Add("name one folder (example: statelab report --serve results)")
	}

	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		m.Add("%s: no such folder (name the folder that holds your results: statelab report "+
			"--serve FOLDER)", root)
	}

	if err := m.Err(); err != nil {
		return err
	}

	return serve.Serve(a.ctx, root, listen, func(shown string) {
		fmt.Fprintf(a.stdout, "http://%s/ (stop with Ctrl-C)\n", shown)
	})
}
