package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/tree"
)

// harvest writes the changes that a tree's forest has kept as a container, beside
// its place first.
func harvest(
	ctx context.Context, in io.Reader, out io.Writer, find func(string) (tree.Tree, error),
) (err error) {
	var order protocol.HarvestOrder
	if err := protocol.Decode(in, &order); err != nil {
		return fmt.Errorf("read what to harvest: %w", err)
	}

	t, err := find(order.Tree)
	if err != nil {
		return err
	}

	harvester, can := t.(tree.Harvester)
	if !can {
		return fmt.Errorf("%s cannot harvest", order.Tree)
	}

	survey, err := harvester.Survey(ctx, order.Dir)
	if err != nil {
		return fmt.Errorf("survey %s: %w", order.Dir, err)
	}

	if order.Out == "" {
		return json.NewEncoder(out).Encode(survey)
	}

	first, last := max(order.First, survey.First), survey.Last
	if order.Last > 0 {
		last = min(order.Last, last)
	}

	if last < first {
		return fmt.Errorf("%s holds versions %d to %d: none of those asked for", order.Dir,
			survey.First, survey.Last)
	}

	f, err := os.CreateTemp(filepath.Dir(order.Out), "."+filepath.Base(order.Out)+".*")
	if err != nil {
		return err
	}

	err = writeHarvest(ctx, f, t, harvester, order, survey, first, last)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), order.Out)
	}

	if err != nil {
		return fmt.Errorf("harvest %s: %w", order.Dir, errors.Join(err, os.Remove(f.Name())))
	}

	return json.NewEncoder(out).Encode(tree.Survey{Stores: survey.Stores, First: first, Last: last})
}

// writeHarvest streams versions into a container: empty ones too, so that they stay
// aligned.
func writeHarvest(
	ctx context.Context, out io.Writer, t tree.Tree, from tree.Harvester,
	order protocol.HarvestOrder, survey tree.Survey, first, last int64,
) error {
	header := changeset.Header{
		Order:      changeset.OrderSortedNet,
		Provenance: fmt.Sprintf("harvested by %s from %s", order.Tree, filepath.Base(order.Dir)),
	}

	roots, err := chainRoots(ctx, t, order, first, last)
	if err != nil {
		return err
	}

	if len(roots) > 0 {
		header.RootRule = t.Info().RootRule
	}

	w, err := changeset.NewWriter(out, header)
	if err != nil {
		return err
	}

	for _, name := range survey.Stores { // the empty ones too: they have roots
		if _, err := w.Store(name); err != nil {
			return err
		}
	}

	h := harvesting{w: w, stores: survey.Stores, roots: roots, first: first, at: first - 1}
	err = from.Harvest(ctx, order.Dir, first, last, func(
		version int64, store string, c tree.Change,
	) error {
		if version < h.at || version > last {
			return fmt.Errorf("version %d came after %d, of %d to %d", version, h.at, first, last)
		}

		if err := h.upTo(version); err != nil {
			return err
		}

		number, err := w.Store(store)
		if err != nil {
			return err
		}

		return w.Change(changeset.Change{
			Store:  number,
			Key:    c.Key,
			Value:  c.Value,
			Delete: c.Delete,
		})
	})
	if err != nil {
		return err
	}

	if err := h.upTo(last); err != nil {
		return err
	}

	return errors.Join(h.end(), w.Close())
}

// harvesting writes versions one after the other.
type harvesting struct {
	w         *changeset.Writer
	stores    []string
	roots     map[int64]map[string][]byte
	first, at int64 // the version that is open
}

// upTo ends the versions before version and begins it.
func (h *harvesting) upTo(version int64) error {
	for h.at < version {
		if h.at >= h.first {
			if err := h.end(); err != nil {
				return err
			}
		}

		h.at++
		if err := h.w.Begin(h.at); err != nil {
			return err
		}
	}

	return nil
}

// end ends the open version, with the chain's roots where they are known.
func (h *harvesting) end() error {
	r := changeset.Roots{}
	if at, known := h.roots[h.at]; known {
		for _, name := range h.stores {
			r.Stores = append(r.Stores, at[name])
		}
	}
	return h.w.End(r)
}

// chainRoots are those that the forest keeps of the chain, by version and store. Only
// a set that begins where the forest does has them again when it is replayed.
func chainRoots(
	ctx context.Context, t tree.Tree, order protocol.HarvestOrder, first, last int64,
) (map[int64]map[string][]byte, error) {
	keeper, keeps := t.(tree.RootKeeper)
	if !keeps || !order.Whole {
		return nil, nil
	}

	roots := map[int64]map[string][]byte{}
	err := keeper.ChainRoots(ctx, order.Dir, first, last, func(
		version int64, stores map[string][]byte,
	) error {
		roots[version] = stores
		return nil
	})

	return roots, err
}
