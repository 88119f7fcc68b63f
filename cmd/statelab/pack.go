package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/explain/publish"
	"github.com/statelab/statelab/internal/observe/host"
)

func (a *app) packVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Pack results into one file, check packs, make a site of them",
		Long: `A pack is one file with results that anybody can check.

  statelab pack create S --out pebble1-800k.zip
  statelab pack verify pebble1-800k.zip
  statelab pack site packs --out web               (pages that rank all packs in a folder)`,
	}

	return a.group(cmd, a.packCreate(), a.packVerify(), a.packSite())
}

func (a *app) packCreate() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "create FOLDER",
		Short: "Pack a folder of results into one file, with a checksum of everything in it",
		Long: `Create packs the results in FOLDER (figures, counters, time series, histograms,
the experiment and a page; no database) into a zip file. Anybody can check it:
statelab pack verify computes its figures and its page again from the raw files. The
pack names paths and hardware of this machine.

  statelab pack create S --out pebble1-800k.zip
  statelab pack verify pebble1-800k.zip`,
	}

	cmd.Flags().StringVar(&out, "out", "", "the pack (default: FOLDER.zip in this folder)")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if m.One(args,
			"folder of results (example: statelab pack create S --out S.zip)"); len(args) != 1 {
			return m.Err()
		}

		out = cmp.Or(out, filepath.Base(absolute(args[0]))+".zip")
		if filepath.Ext(out) != ".zip" {
			m.Add("--out %s: the name of a pack ends in .zip", out)
		}

		m.NewFile("--out: ", out, &force)
		if err := m.Err(); err != nil {
			return err
		}

		name := strings.TrimSuffix(filepath.Base(out), ".zip")
		// A pack that does not pass helps nobody.
		found, err := publish.Verify(args[0], host.VersionLine())
		if err == nil {
			err = found.Passes(args[0])
		}

		if err != nil {
			return err
		}

		if err := output.Write(out, commandline.Replaces(&force), func(f *os.File) error {
			return publish.Pack(f, args[0], name, host.VersionLine())
		}); err != nil {
			return err
		}

		fmt.Fprintf(a.stdout, "%s: %s, %s checked\n", out, plural(found.Runs, "run"),
			plural(found.Figures, "figure"))
		return nil
	})
}

func (a *app) packVerify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify PACK...",
		Short: "Check packs of results: checksums, every figure against the raw files, and " +
			"the page",
		Long: `Verify checks packs made by statelab pack create, and folders of results. It compares
the checksum of every file, computes figures again from the counters, the time
series and the latency histograms, summaries from their runs, and the page from
all of it. Every inconsistency is reported, and the exit code is then 1.

  statelab pack verify pebble1-800k.zip
  statelab pack verify S

A pack that passes is consistent and unchanged since it was made. No check of files
can show that its figures were ever measured.`,
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if len(args) == 0 {
			m.Add("name a pack or a folder of results (example: statelab pack verify S.zip)")
		}

		for _, path := range args {
			m.Readable("", path)
		}

		if err := m.Err(); err != nil {
			return err
		}

		verdicts := map[string]*publish.Verdict{}
		var failed []error
		for _, path := range args {
			found, err := publish.Check(path, host.VersionLine())
			if found != nil {
				verdicts[path] = found
			}

			if err != nil {
				failed = append(failed, err)
			} else if !asJSON {
				fmt.Fprintf(a.stdout, "%s passes: %s\n", path, found)
			}
		}

		if asJSON {
			failed = append(failed, a.printJSON(verdicts))
		}

		return errors.Join(failed...)
	})
}

func (a *app) packSite() *cobra.Command {
	var out, title string
	cmd := &cobra.Command{
		Use:   "site FOLDER --out DIR",
		Short: "Make a static site of all packs in a folder: ranked by question, with every report",
		Long: `Site checks every pack (*.zip, made by statelab pack create) in FOLDER and
writes pages for any web server: one that ranks engines, trees and layouts by
question, and the report and the raw files of each pack. Only what was measured
under the same conditions is ranked together. Packs that do not pass the check
are left out and named. The pages load nothing from elsewhere.

  statelab pack site packs --out web
  statelab pack site packs --out web --title 'State lookups on NVMe'`,
	}

	cmd.Flags().StringVar(&out, "out", "", "new folder for the pages")
	cmd.Flags().StringVar(&title, "title", "Published results", "heading of the site")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		m.One(args, "folder of packs (example: statelab pack site packs --out web)")
		m.NewFolder(out, "web")
		if err := m.Err(); err != nil {
			return err
		}

		packs, err := publish.Packs(args[0])
		if err != nil {
			return err
		}

		if len(packs) == 0 {
			return fmt.Errorf("%s holds no packs (*.zip): make some with statelab pack create",
				args[0])
		}

		var shown []publish.Shown
		if err := output.WriteFolder(out, func(dir string) error {
			shown, err = publish.Site(dir, packs, title, host.VersionLine())
			return err
		}); err != nil {
			return err
		}

		var left []error
		for _, s := range shown {
			if s.Problem != "" {
				left = append(left, fmt.Errorf("left out %s: %s", s.Name, s.Problem))
			}
		}

		fmt.Fprintf(a.stdout, "%s: %s of %d\n", filepath.Join(out, "index.html"),
			plural(len(shown)-len(left), "pack"), len(shown))
		return errors.Join(left...)
	})
}
