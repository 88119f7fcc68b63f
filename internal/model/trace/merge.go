package trace

import (
	"fmt"
	"io"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// Merge writes the trace of a key stream of which parts are consecutive shares, in any order.
// It is the trace of the whole stream, byte for byte: blocks are numbered again in the order of
// their first use.
func Merge(out io.Writer, parts []io.Reader) (Header, Totals, PerGet, error) {
	inOrder, header, err := arrange(parts)
	if err != nil {
		return header, Totals{}, PerGet{}, err
	}
	w, err := NewWriter(out, header)
	if err != nil {
		return header, Totals{}, PerGet{}, err
	}
	numbers, offered := map[cachesim.Block]uint32{}, uint64(0)
	for i, r := range inOrder {
		if err := w.append(r, numbers); err != nil {
			return header, w.totals, PerGet{}, fmt.Errorf("part %d/%d: %w", i+1, len(inOrder), err)
		}
		offered += r.Totals().Offered
	}
	totals, err := w.Close(offered)
	return header, totals, w.PerGet(), err
}

// arrange opens the parts of one trace in their order; header is that of the whole.
func arrange(parts []io.Reader) (inOrder []*Reader, header Header, err error) {
	inOrder = make([]*Reader, len(parts))
	for i, part := range parts {
		r, err := NewReader(part)
		if err != nil {
			return nil, header, err
		}
		this := r.Header()
		p := this.Part
		this.Part = engine.Part{}
		switch {
		case p.Of == 0:
			return nil, header, fmt.Errorf("trace: this is not a part of a trace (statelab trace --part K/N makes one)")
		case p.Of != len(parts) || p.Number < 1 || p.Number > p.Of:
			return nil, header, fmt.Errorf("trace: part %d/%d among %d parts", p.Number, p.Of, len(parts))
		case i > 0 && this != header:
			return nil, header, fmt.Errorf("trace: part %d/%d is of another key stream or database than the one before it", p.Number, p.Of)
		case inOrder[p.Number-1] != nil:
			return nil, header, fmt.Errorf("trace: part %d/%d is given twice", p.Number, p.Of)
		}
		inOrder[p.Number-1], header = r, this
	}
	return inOrder, header, nil
}

// append writes the Gets that are left in r; numbers are the writer's.
func (w *Writer) append(r *Reader, numbers map[cachesim.Block]uint32) error {
	var own []uint32 // the writer's numbers plus one, by r's; 0: not looked up yet
	var get []uint32
	for {
		var found bool
		var err error
		if get, found, err = r.Next(get); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		blocks := r.Blocks()
		own = append(own, make([]uint32, len(blocks)-len(own))...)
		for i, number := range get {
			if own[number] == 0 {
				known, is := numbers[blocks[number]]
				if !is {
					known = w.Block(blocks[number])
					numbers[blocks[number]] = known
				}
				own[number] = known + 1
			}
			get[i] = own[number] - 1
		}
		if err := w.Get(found, get); err != nil {
			return err
		}
	}
}
