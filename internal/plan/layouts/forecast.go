package layouts

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/statelab/statelab/internal/model/gas"
	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/internal/subject"
)

// forecast is a question to a model.
type forecast struct {
	layout string
	size   Size
	kind   statemodel.Kind
	memory int64 // 0: nothing is cached
}

// forecasts are what models answered.
type forecasts struct {
	known map[forecast]statemodel.Reads
	asked bool // models are not asked again
	cut   bool // and were not asked everything
}

// part is a state whose lookups are a share of all that a forecast is of.
type part struct {
	statemodel.State
	share float64
}

// partReads is what lookups of a part read; not known where the model does not reach it.
type partReads struct {
	statemodel.Reads
	known bool
}

// forecast is what a lookup reads by the model of its layout, in the mean of its parts.
func (p Pricing) forecast(f forecast) (reads statemodel.Reads, known bool) {
	if p.forecasts.asked {
		reads, known = p.forecasts.known[f]
		return reads, known
	}

	parts := p.parts(f)
	answers := make([]partReads, 0, len(parts))
	for _, part := range parts {
		answers = append(answers, p.ask(f, part))
	}

	return mean(parts, answers)
}

// mean is that of the parts; not known if one of them is not.
func mean(parts []part, answers []partReads) (reads statemodel.Reads, known bool) {
	for i, part := range parts {
		if !answers[i].known {
			return statemodel.Reads{}, false
		}
		reads.Mean += part.share * answers[i].Mean
		reads.Off = max(reads.Off, answers[i].Off)
	}
	return reads, len(parts) > 0
}

// ask asks the model of one part: of a lookup with nothing cached; or of a warm one, after as many
// lookups of slots as of accounts have been made for long.
func (p Pricing) ask(f forecast, of part) (reads partReads) {
	layout, _ := subject.LayoutOf(f.layout)
	model := layout.Model
	switch {
	case model == nil || !isPredicted(f.layout, f.kind, f.memory):
		return reads
	case f.memory == 0:
		reads.Reads, reads.known = model.Uncached(of.State, f.kind,
			float64(p.Layouts[0].Workload.MemoryBytes))
		return reads
	}

	m, fits := model.Divide(of.State, float64(f.memory))
	if !fits {
		return reads
	}

	memories := model.Memories(of.State, m)
	if memories == nil {
		return reads
	}

	mix := statemodel.Mix{statemodel.Account: 1}
	if model.Slots {
		mix[statemodel.Slot] = 1
	}

	reads.Mean = statemodel.SteadyAmong(memories, f.kind, mix)[model.Device]
	reads.known = true
	return reads
}

// parts are the states whose lookups a forecast is the mean of: one for each place of the contract
// in the builds or, of slots of many contracts, for each class of their sizes.
func (p Pricing) parts(f forecast) (parts []part) {
	s := p.state(f.layout, f.size)
	if slots := float64(f.size.SpreadSlots); slots > 0 {
		classes := statemodel.ContractsAt(s.Accounts, slots)
		if !isSlot(f.kind) { // all are alike
			largest := slices.MaxFunc(classes, func(a, b statemodel.ContractClass) int {
				return cmp.Compare(a.Share, b.Share)
			})
			return []part{{s.Spread(slots, largest), 1}}
		}

		for _, c := range classes {
			parts = append(parts, part{s.Spread(slots, c), c.Share})
		}

		return parts
	}

	seeds := p.seeds()
	for _, seed := range seeds {
		s.ContractAt = contractAt(seed)
		parts = append(parts, part{s, 1 / float64(len(seeds))})
	}

	return parts
}

// toForecast is what Rows needs to know: of sizes that were not built, and of the two largest that
// were, by which predictions are tested. Those come first, so that what is known after an
// interruption has been tested.
func (p Pricing) toForecast() (all []forecast) {
	built := p.built()
	names := layoutsOf(built)
	add := func(sizes func(at []access) []Size, memory int64) {
		for _, k := range pricedKinds() {
			for _, name := range names {
				if !isPredicted(name, k.model, memory) {
					continue
				}

				for _, size := range sizes(firstLookups(built, name, k)) {
					f := forecast{name, size, k.model, memory}
					if !slices.Contains(all, f) {
						all = append(all, f)
					}
				}
			}
		}
	}

	add(func(at []access) (sizes []Size) {
		for _, b := range at[max(0, len(at)-2):] {
			sizes = append(sizes, gas.SizeOf(b))
		}
		return sizes
	}, 0)

	for _, memory := range append(slices.Clone(p.AheadMemory), 0) { // the quickest first
		add(func(at []access) []Size {
			if len(at) == 0 {
				return nil
			}
			return p.Ahead
		}, memory)
	}

	return all
}

// Forecast asks the models what Rows needs to know of sizes that were not built, which can take
// seconds of each. tell is told of how many states they have been asked. Where ctx ends it, the
// error is the context's; Rows then predicts what is known.
func (p *Pricing) Forecast(ctx context.Context, tell func(done, of int)) error {
	if len(p.Ahead) == 0 {
		return nil
	}

	type question struct {
		forecast
		part int
	}

	var questions []question
	parts, answers, missing := map[forecast][]part{}, map[forecast][]partReads{},
		map[forecast]int{}
	for _, f := range p.toForecast() {
		parts[f] = p.parts(f)
		answers[f], missing[f] = make([]partReads, len(parts[f])), len(parts[f])
		for i := range parts[f] {
			questions = append(questions, question{f, i})
		}
	}

	p.forecasts.known = map[forecast]statemodel.Reads{}
	done := 0
	tell(done, len(questions))
	asked := *p
	err := inParallel(ctx, questions, func(q question) partReads {
		return asked.ask(q.forecast, parts[q.forecast][q.part])
	}, func(q question, reads partReads) {
		answers[q.forecast][q.part] = reads
		if missing[q.forecast]--; missing[q.forecast] == 0 {
			if reads, known := mean(parts[q.forecast], answers[q.forecast]); known {
				p.forecasts.known[q.forecast] = reads
			}
		}

		if done++; done < len(questions) {
			tell(done, len(questions))
		}
	})

	p.forecasts.asked, p.forecasts.cut = true, err != nil
	return err
}

// inParallel answers every question on all processors, the first ones first. take is called with
// the answers, one at a time and in no order. When ctx ends, no further question is begun, and the
// error is the context's. In either case no worker is left when it returns.
func inParallel[Q, A any](
	ctx context.Context, questions []Q, answer func(Q) A, take func(Q, A),
) error {
	type answered struct {
		q Q
		a A
	}

	asked, answers := make(chan Q, len(questions)), make(chan answered)
	for _, q := range questions {
		asked <- q
	}

	close(asked)

	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for q := range asked {
				if ctx.Err() != nil {
					return
				}
				answers <- answered{q, answer(q)}
			}
		})
	}

	go func() {
		workers.Wait()
		close(answers)
	}()

	taken := 0
	for of := range answers {
		take(of.q, of.a)
		taken++
	}

	if taken < len(questions) {
		return context.Cause(ctx)
	}

	return nil
}
