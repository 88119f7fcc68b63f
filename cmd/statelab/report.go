package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/explain/kvdblog"
	"github.com/statelab/statelab/internal/explain/report"
	"github.com/statelab/statelab/result"
)

func (a *app) reportVerb() *cobra.Command {
	var out, picture string
	var force bool
	cmd := &cobra.Command{
		Use:   "report FOLDER...",
		Short: "Draw sweep or run folders as one offline HTML file; several are overlaid",
		Long: `Report explains what is in run and sweep folders, without measuring anything.

  statelab report S                                (writes S/report.html)
  statelab report MINE THEIRS --out both.html      (one picture, x = % of the database)
  statelab report S --picture curve.png`,
	}
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.Flags().StringVar(&out, "out", "", "the HTML file (default: report.html in the first folder)")
	cmd.Flags().StringVar(&picture, "picture", "", "also draw the main chart into this PNG file")
	cmd.Flags().BoolVar(&force, "force", false, "with --picture: replace the file if it exists")
	cmd.RunE = func(cmd *cobra.Command, folders []string) error {
		m := new(mistakes)
		m.unknownFlags(cmd, a.args)
		if len(folders) == 0 {
			m.add("no folder given: statelab report S")
		}
		for _, folder := range folders {
			m.readable("", folder)
		}
		if picture != "" {
			m.newFile("--picture: ", picture, &force)
		}
		if out != "" {
			if err := output.File(out, output.Reports); err != nil {
				m.add("--out: %v", err)
			}
		}
		if err := m.err(); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(folders[0], result.ReplayFile)); err == nil {
			return a.reportReplay(folders, out)
		}
		if _, err := os.Stat(filepath.Join(folders[0], result.LayoutsFile)); err == nil {
			return a.reportLayouts(folders, out)
		}
		in, err := report.FromFolders(folders...)
		if err != nil {
			return err
		}
		if err := report.Text(a.stdout, in); err != nil {
			return err
		}
		path := orDefault(out, filepath.Join(folders[0], result.ReportFile))
		if err := writeReport(path, in); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "\nreport: %s\n", path)
		if picture == "" {
			return nil
		}
		return output.Write(picture, replaces(&force), func(f *os.File) error { return report.Picture(in, f) })
	}
	return cmd
}

func writeReport(path string, in report.Input) error {
	return writeFile(path, func(f *os.File) error { return report.Write(f, in) })
}

// writeFile writes a report, which may replace an earlier one.
func writeFile(path string, write func(*os.File) error) error {
	return output.Write(path, output.Reports, write)
}

func (a *app) importVerb() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "import LOGS --out DIR",
		Short: "Turn published bench_kvdb logs into sweep folders, to compare with your own",
		Long: `Import reads RadmonRead_*.log, Properties_*.log and Write_*.log and writes one
sweep folder per dataset.

  statelab import LOGS --out published
  statelab report S published/200M published/2B --out both.html`,
	}
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.Flags().StringVar(&out, "out", "", "new folder for the sweep folders")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m := new(mistakes)
		m.unknownFlags(cmd, a.args)
		if len(args) != 1 {
			m.add("name one folder of logs (example: statelab import LOGS --out DIR)")
		} else {
			m.readable("", args[0])
		}
		m.newFolder(out, "published")
		if err := m.err(); err != nil {
			return err
		}
		var folders []string
		err := output.WriteFolder(out, func(dir string) (err error) {
			folders, err = kvdblog.Import(os.DirFS(args[0]), dir)
			return err
		})
		if err != nil {
			return fmt.Errorf("import %s: %w", args[0], err)
		}
		for _, folder := range folders {
			fmt.Fprintln(a.stdout, filepath.Join(out, filepath.Base(folder)))
		}
		return nil
	}
	return cmd
}
