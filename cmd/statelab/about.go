package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/ask/bugreport"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/host"
)

func (a *app) doctorVerb() *cobra.Command {
	var dir, report, run string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what distorts measurements on this machine, and how to fix it",
		Long: `Doctor lists what this machine allows and what makes its times vary: processors,
memory, the page cache, the disk under a folder. It also says whether statelab watch
can attach to processes here and, if not, why. statelab disk measures the disk's own
limit, and statelab advise says whether that limits your node.

  statelab doctor --db /var/lib/geth

With --report it packs what a report of a fault needs, and prints all of it: the
program, the machine, the checks, the runners, and of --run settings and warnings.
Names of the machine and of its user, paths, keys, and command lines are left out.

  statelab doctor --report fault.zip --run S`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := new(mistakes)
			m.Readable("db", dir)
			if report == "" {
				m.Refuse(cmd.Flags(), "only with --report", "run")
			} else {
				m.Refuse(cmd.Flags(), "not with --report, which is JSON", "json")
				if m.NewFileIf("report", report, nil); filepath.Ext(report) != ".zip" {
					m.Add("--report %q: must end in .zip (example: --report fault.zip)", report)
				}

				if run != "" {
					m.Readable("run", run)
				}
			}

			if err := m.Err(); err != nil {
				return err
			}

			if report != "" {
				dir = absolute(dir) // so that no message names it in another way
			}

			findings := append(host.Doctor(a.ctx, dir), watch.Possible())
			if text := watch.Unwatched(dir); text != "" {
				findings = append(findings, host.Finding{
					Name:    "the node",
					State:   text,
					Verdict: host.Doubt,
					Spoils:  "times and device reads: the node's are among them",
				})
			}
			if report != "" {
				return a.report(report, bugreport.Source{Dir: dir, Run: run, Findings: findings})
			}

			if asJSON {
				return a.printJSON(findings)
			}

			where := dir
			if dir == "." {
				where = "the current directory"
			}

			return a.show(host.Document(where, findings))
		},
	}

	cmd.Flags().StringVar(&dir, "db", ".", "folder of the databases to measure")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&report, "report", "",
		"pack what a report of a fault needs into this new .zip file, and print it")
	cmd.Flags().StringVar(&run, "run", "",
		"with --report: a folder of results, whose settings and warnings are packed")
	return cmd
}

// report prints what a report of a fault is to contain, and writes it.
func (a *app) report(path string, s bugreport.Source) error {
	s.Installed, s.Private = a.tables.Installed(), bugreport.ThisUser()
	if here, err := os.Getwd(); err == nil {
		s.Private.Folders = append(s.Private.Folders, here)
	}

	files, err := bugreport.Files(s)
	if err != nil {
		return err
	}

	for _, file := range files {
		fmt.Fprintf(a.stdout, "%s\n%s\n\n", file.Name, file.Text)
	}

	fmt.Fprintf(a.stdout, "%s contains the files above and nothing else: read them before you "+
		"send it\n", path)
	return output.Write(path, nil, func(f *os.File) error { return bugreport.Write(f, files) })
}

func (a *app) volumeVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "volume",
		Short: "Make a filesystem on its own loop device: exact device reads (root)",
		Long: `A volume is a file that holds a filesystem. It is mounted through a loop device of
its own, so the kernel's counters of that device count the database alone.

  statelab volume create V --size 4GiB     (mounts V.mount)
  statelab load --db V.mount/D --keys 5M
  statelab volume remove V`,
	}

	var size string
	create := &cobra.Command{
		Use:   "create IMAGE --size SIZE",
		Short: "Create and mount a volume",
		RunE: func(_ *cobra.Command, args []string) error {
			m := new(mistakes)
			bytes, err := unit.ParseSize("volume size", size, "4GiB, 500MB")
			if err != nil {
				m.Add("--size: %v", err)
			}

			if len(args) != 1 {
				m.Add("name one image file (example: statelab volume create V --size 4GiB)")
			} else {
				m.NewFile("", args[0], nil)
			}

			if err := m.Err(); err != nil {
				return err
			}

			mount, err := host.VolumeCreate(a.ctx, absolute(args[0]), bytes)
			if err != nil {
				return err
			}

			fmt.Fprintln(a.stdout, mount)
			return nil
		},
	}

	create.Flags().StringVar(&size, "size", "", "size of the volume (example: 4GiB)")
	remove := &cobra.Command{
		Use:   "remove IMAGE",
		Short: "Unmount a volume and delete it with all databases inside",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one image file (example: statelab volume remove V)")
			}

			// what a crash has left of a volume is removed, too
			for _, path := range []string{args[0], args[0] + ".mount"} {
				if _, err := os.Stat(path); err == nil {
					return host.VolumeRemove(absolute(args[0]))
				}
			}

			return fmt.Errorf("%s: there is no such volume", args[0])
		},
	}

	return a.group(cmd, create, remove)
}
