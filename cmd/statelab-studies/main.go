// Statelab-studies goes through published studies: it reports what became of each of their claims,
// and predicts every point of bench_kvdb's published logs. It is for those who work on statelab.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/explain/studies"
	"github.com/statelab/statelab/result"
)

const usage = `usage:
  statelab-studies report [-out FILE] STUDY [FOLDER...]   each claim, with what was predicted and measured; sweeps,
                                                          replays and other folders take the place of the study's own
  statelab-studies validate [-out DIR] [-gets N] LOGS     published logs of bench_kvdb: every point predicted
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{""}
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	out := flags.String("out", "", "")
	gets := flags.Uint64("gets", 10_000_000, "") // the study's
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	var err error
	switch {
	case args[0] == "report" && flags.NArg() > 0:
		err = report(stdout, *out, flags.Args())
	case args[0] == "validate" && flags.NArg() == 1:
		err = validate(ctx, stdout, flags.Arg(0), *out, *gets)
	default:
		flags.Usage()
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, "statelab-studies:", err)
		return 1
	}
	return 0
}

// report prints a study and writes its page, into its own folder unless out says where.
func report(stdout io.Writer, out string, folders []string) error {
	study, err := studies.Open(folders[0], folders[1:]...)
	if err != nil {
		return err
	}
	if err := study.Text(stdout); err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(folders[0], result.ReportFile)
	}
	if err := output.Write(out, output.Reports, func(f *os.File) error { return study.Page().Write(f) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\nreport: %s\n", out)
	return err
}
