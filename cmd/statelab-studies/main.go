// Statelab-studies goes through published studies: it reports what became of each of their claims,
// and predicts every point of bench_kvdb's published logs. It is for those who work on statelab.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/explain/kvdblog"
	"github.com/statelab/statelab/internal/explain/paper"
	"github.com/statelab/statelab/internal/explain/studies"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

const usage = `usage:
  statelab-studies report [-out FILE] STUDY [FOLDER...]
      each claim, with what was predicted and measured; sweeps, replays and other
      folders take the place of the study's own
  statelab-studies validate [-out DIR] [-gets N] LOGS
      published logs of bench_kvdb: every point predicted
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

	if err := render.Terminal(stdout, study.Document()); err != nil {
		return err
	}

	if out == "" {
		out = filepath.Join(folders[0], result.ReportFile)
	}

	if err := output.Write(out, output.Reports, func(f *os.File) error {
		return render.Page(f, study.Document())
	}); err != nil {
		return err
	}

	_, err = fmt.Fprintf(stdout, "\nreport: %s\n", out)
	return err
}

// The machine and the runs of the study.
const (
	studyCores  = 32
	studyWarmup = 0.0005 // of the keys
)

// validate predicts every published point from the published level table and prints both. With a
// folder, the table and a chart of each dataset are written there, in the place of older ones.
func validate(ctx context.Context, stdout io.Writer, logs, out string, gets uint64) error {
	dir, err := os.MkdirTemp("", "statelab-validate-")
	if err != nil {
		return err
	}

	defer os.RemoveAll(dir)
	folders, err := kvdblog.Import(os.DirFS(logs), dir)
	if err != nil {
		return fmt.Errorf("import %s: %w", logs, err)
	}

	var total validated
	var table strings.Builder
	fmt.Fprintln(&table, "| dataset | cache | published block reads per Get | predicted | error "+
		"| largest error of a type's hit rate |")
	fmt.Fprintln(&table, "|---|--:|--:|--:|--:|--:|")
	for _, folder := range folders {
		published, err := result.ReadSweep(folder)
		if err != nil {
			return err
		}

		if err := predictSweep(ctx, published, gets); err != nil {
			return err
		}

		if err := result.WriteSweep(folder, published); err != nil {
			return err
		}

		total.rows(&table, published)
		if out != "" {
			if err := picture(folder,
				filepath.Join(out,
					"predicted-"+strings.ToLower(filepath.Base(folder))+".svg")); err != nil {
				return err
			}
		}
	}

	fmt.Fprintf(&table, "\n%d points: mean error %.2f %%, worst %.2f %%\n", total.points,
		100*total.sum/float64(total.points), 100*total.worst)
	if _, err := fmt.Fprint(stdout, table.String()); err != nil || out == "" {
		return err
	}

	text := "# Published runs against the prediction\n\nMade by `statelab-studies validate`; do " +
		"not edit.\n\n" + table.String()
	return os.WriteFile(filepath.Join(out, "prediction-validation.md"), []byte(text), 0o644)
}

// validated are the errors of predicted points so far.
type validated struct {
	worst, sum float64
	points     int
}

// rows writes a row for each point that was published and predicted.
func (v *validated) rows(table io.Writer, published *result.Sweep) {
	for i, p := range published.Points {
		if !p.Figures.Has(figure.BlockReadsPerGet) {
			continue
		}

		q := published.Predicted[i]
		miss := q.BlockReadsPerGet/p.Figures.OrZero(figure.BlockReadsPerGet) - 1
		hits := 0.0
		for _, kind := range []string{"filter", "top_index", "index", "data"} {
			hits = max(hits, math.Abs(q.HitRate[kind]-p.Figures.HitRate[kind]))
		}

		fmt.Fprintf(table, "| %s | %s | %.4f | %.4f | %+.2f %% | %.4f |\n", published.Name,
			unit.Bytes(p.CacheBytes), p.Figures.OrZero(figure.BlockReadsPerGet),
			q.BlockReadsPerGet, 100*miss, hits)
		v.worst, v.sum, v.points = max(v.worst, math.Abs(miss)), v.sum+math.Abs(miss), v.points+1
	}
}

// predictSweep fills the predicted points of an imported sweep.
func predictSweep(ctx context.Context, s *result.Sweep, gets uint64) error {
	in := predict.Input{
		Cores:         studyCores,
		Seeds:         []uint64{1, 2, 3},
		Version:       cachesim.PebbleV1,
		ReservedBytes: predict.OpenReserve,
		Gets:          gets,
	}

	in.Levels = lsm.WithCharge(s.Database.Levels, in.Version.BlockCharge())
	keys := int64(0)
	for _, l := range in.Levels {
		keys += l.Keys
	}

	in.WarmupGets = uint64(studyWarmup * float64(keys))
	for _, p := range s.Points {
		in.CacheBytes = append(in.CacheBytes, p.CacheBytes)
	}

	points, err := predict.Run(ctx, in)
	if err != nil {
		return fmt.Errorf("predict %s: %w", s.Name, err)
	}

	s.Predicted = nil
	for _, p := range points {
		s.Predicted = append(s.Predicted, p.PredictedPoint)
	}

	return nil
}

func picture(folder, path string) error {
	in, err := engines.Read(folder)
	if err != nil {
		return err
	}

	file, err := os.Create(path)
	if err != nil {
		return err
	}

	caption, err := paper.Caption(in, folder)
	if err != nil {
		return err
	}

	if err := paper.Picture(file, in, caption); err != nil {
		return err
	}

	return file.Close()
}
