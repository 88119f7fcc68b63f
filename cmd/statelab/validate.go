package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/unit"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/explain/kvdblog"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/result"
)

// validate predicts every published point from the published level table and
// prints both. The machine of the published runs is in the
// study: 32 cores.
func (a *app) validate(f *predictFlags) (err error) {
	m := new(mistakes)
	in, _ := f.input(m)
	in.Cores = 32
	if err := m.err(); err != nil {
		return err
	}
	if f.out != "" {
		tidy, wrong := f.makeFolder()
		if wrong != nil {
			return usage("--out: %v", wrong)
		}
		defer func() { err = errors.Join(err, tidy()) }()
	}
	dir, err := os.MkdirTemp("", "statelab-validate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	folders, err := kvdblog.Import(os.DirFS(f.validate), dir)
	if err != nil {
		return fmt.Errorf("import %s: %w", f.validate, err)
	}
	var total validated
	var table strings.Builder
	fmt.Fprintln(&table, "| dataset | cache | published block reads per Get | predicted | error | largest error of a type's hit rate |")
	fmt.Fprintln(&table, "|---|--:|--:|--:|--:|--:|")
	for _, folder := range folders {
		published, err := result.ReadSweep(folder)
		if err != nil {
			return err
		}
		if err := predictSweep(a, in, published); err != nil {
			return err
		}
		if err := result.WriteSweep(folder, published); err != nil {
			return err
		}
		total.rows(&table, published)
		if f.out != "" {
			if err := f.pictureOf(folder, filepath.Join(f.out, "predicted-"+strings.ToLower(filepath.Base(folder))+".png")); err != nil {
				return err
			}
		}
	}
	if total.points == 0 {
		return fmt.Errorf("%s holds no read log", f.validate)
	}
	fmt.Fprintf(&table, "\n%d points: mean error %.2f %%, worst %.2f %%\n", total.points, 100*total.sum/float64(total.points), 100*total.worst)
	fmt.Fprint(a.stdout, table.String())
	if f.out == "" {
		return nil
	}
	text := "# Published runs against the prediction\n\nMade by `statelab predict --validate LOGS --out docs --force`; do not edit.\n\n" + table.String()
	return output.Write(filepath.Join(f.out, "prediction-validation.md"), replaces(&f.force), func(file *os.File) error {
		_, err := file.WriteString(text)
		return err
	})
}

// validated are the errors of predicted points so far.
type validated struct {
	worst, sum float64
	points     int
}

// rows writes a row for each point that was published and predicted.
func (v *validated) rows(table io.Writer, published *result.Sweep) {
	for i, p := range published.Points {
		if p.Figures.BlockReadsPerGet == nil {
			continue
		}
		q := published.Predicted[i]
		miss := q.BlockReadsPerGet / *p.Figures.BlockReadsPerGet - 1
		hits := 0.0
		for _, kind := range []string{"filter", "top_index", "index", "data"} {
			hits = max(hits, math.Abs(q.HitRate[kind]-p.Figures.HitRate[kind]))
		}
		fmt.Fprintf(table, "| %s | %s | %.4f | %.4f | %+.2f %% | %.4f |\n", published.Name, unit.Bytes(p.CacheBytes), *p.Figures.BlockReadsPerGet,
			q.BlockReadsPerGet, 100*miss, hits)
		v.worst, v.sum, v.points = max(v.worst, math.Abs(miss)), v.sum+math.Abs(miss), v.points+1
	}
}

// makeFolder makes --out; with --force it may hold other files.
func (f *predictFlags) makeFolder() (tidy func() error, err error) {
	if _, err := os.Stat(f.out); err == nil && f.force {
		return func() error { return nil }, output.OutsideDatabases(f.out)
	}
	return output.MakeFolder(f.out)
}

// predictSweep fills the predicted points of an imported sweep.
func predictSweep(a *app, in predict.Input, s *result.Sweep) error {
	in.Version = cachesim.PebbleV1
	in.Levels = lsm.WithCharge(s.Database.Levels, in.Version.BlockCharge())
	keys := int64(0)
	for _, l := range in.Levels {
		keys += l.Keys
	}
	in.ReservedBytes = predict.OpenReserve
	const studyWarmup, studyGets = 0.0005, 10_000_000
	in.WarmupGets, in.Gets = uint64(studyWarmup*float64(keys)), studyGets
	for _, p := range s.Points {
		in.CacheBytes = append(in.CacheBytes, p.CacheBytes)
	}
	points, err := predict.Run(a.ctx, in)
	if err != nil {
		return fmt.Errorf("predict %s: %w", s.Name, err)
	}
	s.Predicted = nil
	for _, p := range points {
		s.Predicted = append(s.Predicted, p.PredictedPoint)
	}
	return nil
}

func (f *predictFlags) pictureOf(folder, path string) error {
	in, err := enginereport.Read(folder)
	if err != nil {
		return err
	}
	return output.Write(path, replaces(&f.force), func(file *os.File) error { return in.Picture(file) })
}
