package watch

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/subject"
)

// Process watches a process: its page faults if it maps its database into memory, else its Gets.
func Process(ctx context.Context, w Wanted) (*Seen, error) {
	pid, err := w.PID, error(nil)
	switch {
	case w.Name != "":
		pid, err = probe.Named(w.Name)
	case w.Dir != "":
		if w.Dir, err = folderOf(w.Dir); err == nil {
			pid, err = probe.FindOwner(w.Dir)
		}
	}

	if err != nil {
		return nil, err
	}

	t, err := probe.Process(pid)
	if err != nil {
		return nil, err
	}

	mapped, err := MappedBy(t, w.Dir)
	if err != nil {
		return nil, err
	}

	if mapped != nil {
		return w.faults(ctx, t, mapped)
	}

	if t, err = probe.Find(pid, subject.AllWatched()); err != nil {
		return nil, err
	}

	return w.gets(ctx, t)
}

// folderOf is the folder of a database, which may be given as its one file. A folder that is none,
// such as the one above it, would hold no table.
func folderOf(path string) (dir string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return path, nil // FindOwner says that it is not there
	}

	if !info.IsDir() {
		path = filepath.Dir(path)
	}

	_, err = dbformat.Recognise(path)

	return path, err
}

// faults watches the page faults of a process on the database that it maps.
func (w Wanted) faults(
	ctx context.Context, t *probe.Target, of *MappedFile,
) (seen *Seen, err error) {
	gets, noGets := openMappedGets(t.PID, of)
	if w.mapped, w.noGets = gets, noGets; gets != nil {
		defer func() { err = errors.Join(err, gets.close()) }()
	}

	m := new(setting.Mistakes)
	for _, flag := range w.OfGets {
		switch {
		case gets == nil:
			m.At(flag, "", "%s maps its database into memory, so that page faults are seen "+
				"instead of Gets: leave the flag out", t)
		case flag == "cache", flag == "what-if":
			m.At(flag, "", "%s maps its database into memory, so that it has no block cache: "+
				"leave the flag out (--trace-out FILE, and then statelab simulate FILE --cache "+
				"SIZE, simulates page caches)", t)
		}
	}

	if err := m.Err(); err != nil {
		return nil, err
	}

	p, err := probe.OpenFaults(t, of.Path)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Attach(); err != nil {
		return nil, err
	}

	if gets != nil {
		if err := gets.probe.Attach(); err != nil {
			return nil, err
		}
	}

	if w.Tick, err = w.Attached(true); err != nil {
		return nil, err
	}

	return Faults(ctx, t, p, of, w.Options)
}

// gets attaches to the process and watches its Gets.
func (w Wanted) gets(ctx context.Context, t *probe.Target) (seen *Seen, err error) {
	dir := ""
	find := func() (err error) {
		if w.Dir == "" {
			limited, stop := w.limited(ctx)
			defer stop()
			dir, err = Database(limited, t, w.Tell)
		} else if dir, err = filepath.EvalSymlinks(output.Absolute(w.Dir)); err == nil {
			dir = cmp.Or(t.Opened(dir), dir)
		}

		return err
	}

	// Which of several engines it is, its database tells. A process with one is watched before it
	// opens its database; once it has, it is left alone until all is ready.
	several := len(t.Engines()) > 1
	early := w.Dir == "" && !several && len(t.Databases()) == 0
	if !early {
		if err := find(); err != nil {
			return nil, err
		}
	}

	if several {
		of, err := dbformat.Recognise(dir)
		if err != nil {
			return nil, err
		}

		if err := t.Choose(of.Engine); err != nil {
			return nil, err
		}
	}

	p, err := probe.Open(t)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, p.Close()) }()
	if early {
		if err := p.Attach(); err != nil {
			return nil, err
		}

		if err := find(); err != nil {
			return nil, err
		}
	}

	if w.Tick, err = w.Attached(false); err != nil {
		return nil, err
	}

	told := func() (Layout, Cache) {
		return LayoutOf(t.Engine.Engine, dir), CacheOf(t, dir, w.CacheBytes)
	}
	if early {
		w.opened = told
	}

	layout, cache := told()

	return Traffic(ctx, t, p, dir, layout, cache, w.Options)
}

func possible() error { return probe.Possible() }
