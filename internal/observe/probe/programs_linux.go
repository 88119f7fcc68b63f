package probe

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/statelab/statelab/internal/subject"
)

// word is the place of an integer register of a function's arguments or results.
func word(e subject.Watched, number int) uint32 {
	if e.Module == "" {
		return registers.native[number]
	}
	return registers.integer[number]
}

// programs are what sees Gets and reads, and what they have in common.
type programs struct {
	*loading
	of       ofReads
	gets     []ofGets // of each place
	together []ofKeys // of each function that looks keys of a batch up
	batches  []ofBatches
	seeks    ofSeeks
}

// variables is the map of the variables that the programs change.
const variables = ".bss"

// ofReads are loaded once, the others for each function.
type ofReads struct {
	ReadAtBegins   *ebpf.Program  `ebpf:"read_at_begins"`
	ReadNextBegins *ebpf.Program  `ebpf:"read_next_begins"`
	ReadEnds       *ebpf.Program  `ebpf:"read_ends"`
	UringEnds      *ebpf.Program  `ebpf:"uring_ends"`
	ReadAsks       *ebpf.Program  `ebpf:"read_asks"`
	Calls          *ebpf.Map      `ebpf:"calls"`
	Reads          *ebpf.Map      `ebpf:"reads"`
	Events         *ebpf.Map      `ebpf:"events"`
	Variables      *ebpf.Map      `ebpf:".bss"`
	Window         *ebpf.Variable `ebpf:"window"` // not 0 while a window is open
	Lost           *ebpf.Variable `ebpf:"lost"`
	Batches        *ebpf.Variable `ebpf:"batches"`
	DeviceNumber   *ebpf.Variable `ebpf:"device_number"`
	Device         *ebpf.Variable `ebpf:"device"`
}

type ofGets struct {
	Begins *ebpf.Program `ebpf:"get_begins"`
	Ends   *ebpf.Program `ebpf:"get_ends"`
}

type ofSeeks struct {
	Begins *ebpf.Program `ebpf:"seek_begins"`
	Ends   *ebpf.Program `ebpf:"seek_ends"`
}

type ofKeys struct {
	Begins *ebpf.Program `ebpf:"keys_begin"`
	Ends   *ebpf.Program `ebpf:"keys_end"`
}

type ofBatches struct {
	Begins *ebpf.Program `ebpf:"batch_begins"`
}

// load loads the programs for one process. multi: one link will attach all probes of a program.
func load(t *Target, namespace namespace, multi bool) (_ *programs, err error) {
	e, code := t.Engine, &t.code
	l, err := newLoading(namespace, e.Module == "")
	if err != nil {
		return nil, err
	}

	p := &programs{
		loading:  l,
		gets:     make([]ofGets, len(code.places)),
		together: make([]ofKeys, len(code.together)),
		batches:  make([]ofBatches, len(code.batches)),
	}

	defer func() {
		if err != nil {
			_ = p.close() // err tells why
		}
	}()

	for _, program := range l.spec.Programs {
		if multi && program.Type == ebpf.Kprobe {
			program.AttachType = ebpf.AttachTraceUprobeMulti
		}
	}

	if err := l.load(&p.of); err != nil {
		return nil, err
	}

	l.shared = map[string]*ebpf.Map{
		bpfMapCalls:  p.of.Calls,
		bpfMapReads:  p.of.Reads,
		bpfMapEvents: p.of.Events,
		variables:    p.of.Variables,
	}

	for i, at := range code.places {
		if err := p.forFunction(getFunction(e, at.function), &p.gets[i]); err != nil {
			return nil, err
		}
	}

	for i, at := range code.together {
		if err := p.forFunction(keysFunction(e, at.function), &p.together[i]); err != nil {
			return nil, err
		}
	}

	for i, b := range code.batches {
		function := bpfFunction{Keys: word(e, b.KeysAt), KeysIn: b.InVector}
		if !b.InVector {
			function.Keys = registers.withoutResult[b.KeysAt]
		}

		if err := p.forFunction(function, &p.batches[i]); err != nil {
			return nil, err
		}
	}

	if len(code.seeks) > 0 {
		return p, p.forFunction(bpfFunction{Database: placeOf(e, 0, nil)}, &p.seeks)
	}

	return p, nil
}

// forFunction loads the programs of one.
func (p *programs) forFunction(function bpfFunction, to any) error {
	if err := p.set(bpfVarFunction, function); err != nil {
		return err
	}

	return p.load(to)
}

// getFunction tells where one that makes Gets has its arguments and results.
func getFunction(e subject.Watched, number int) bpfFunction {
	f := e.Gets[number]
	of := bpfFunction{
		Number:   uint32(number),
		Database: placeOf(e, f.DatabaseAt, f.DatabaseVia),
		Key:      word(e, f.KeyAt),
		Family:   placeOf(e, f.FamilyAt, f.FamilyVia),
	}

	if e.Module == "" {
		of.Outcomes = word(e, 0)
		return of
	}

	of.KeyBytes, of.Found = word(e, f.KeyAt+1), word(e, f.FoundAt)
	of.Error = placeOf(e, f.ErrorAt, f.ErrorVia)
	of.FamilyIndex, of.FamilyBytes = word(e, f.FamilyIndexAt), uint32(f.FamilyBytes)
	of.Operation = word(e, f.OperationAt)
	for operation, does := range f.Operations {
		if does == subject.ForGets {
			of.GetOperations |= 1 << operation
		} else {
			of.SeekOperations |= 1 << operation
		}
	}

	if f.SecondAt > 0 {
		of.HasSecond, of.Value = true, word(e, f.ValueAt)
		of.Second, of.SecondBytes = word(e, f.SecondAt), word(e, f.SecondAt+1)
	}

	return of
}

// placeOf is a register, or what it leads to.
func placeOf(e subject.Watched, number int, via []int) (p bpfPlace) {
	p.Word, p.Steps = word(e, number), uint32(len(via))
	for i, offset := range via {
		p.Via[i] = uint32(offset)
	}
	return p
}

// keysFunction tells where one that looks keys of a batch up has its arguments.
func keysFunction(e subject.Watched, number int) bpfFunction {
	t := e.Together[number]
	return bpfFunction{
		Number:   uint32(number),
		Database: placeOf(e, t.DatabaseAt, nil),
		Keys:     word(e, t.KeysAt),
		From:     word(e, t.FromAt),
		Count:    word(e, t.CountAt),
		Families: word(e, t.FamiliesAt),
		Outcomes: word(e, 0),
		OneByOne: t.OneByOne(),
	}
}

// forget drops what was under way when the probes were last attached.
func (p *programs) forget() error {
	for _, m := range []*ebpf.Map{p.of.Calls, p.of.Reads} {
		var keys []uint64
		var key uint64
		value := make([]byte, m.ValueSize())
		all := m.Iterate()
		for all.Next(&key, &value) {
			keys = append(keys, key)
		}

		for _, key := range keys {
			if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return err
			}
		}
	}

	return nil
}

// counted are the losses so far.
func (p *programs) counted() (Lost, error) {
	var lost bpfLost
	err := p.of.Lost.Get(&lost)
	return Lost{lost.Gets, lost.Reads}, err
}

// looked are the lookups of many keys at once so far, and their keys.
func (p *programs) looked() (Batches, error) {
	var b bpfBatches
	err := p.of.Batches.Get(&b)
	return Batches{b.Calls, b.Keys}, err
}
