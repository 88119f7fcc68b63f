package studies

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/subject"
)

// figure finds "RUN PATH" among the study's results, in the claim's unit; nil for "", and
// where the result has no such point. PATH is names with dots between them. Of a list,
// [name=value] chooses the items in which a name has a value, and the figures of all that
// are left are added up. "PATH + PATH" adds, "PATH / PATH" divides, "PATH * PATH" multiplies,
// "PATH - PATH" subtracts, from left to right. RUN:PATH is of another run.
func (s *Study) figure(place, unitName string) (*float64, error) {
	if place == "" {
		return nil, nil
	}

	run, rest, _ := strings.Cut(place, " ")
	root, ok := s.results[run]
	if !ok {
		return nil, fmt.Errorf("%q: the study has no run %q", place, run)
	}

	words := terms(rest)
	if len(words)%2 == 0 {
		return nil, fmt.Errorf("%q: write RUN PATH, or RUN PATH + PATH", place)
	}

	total := 0.0
	for i := 0; i < len(words); i += 2 {
		from, path := root, words[i]
		if other, rest, named := strings.Cut(path, ":"); named && !strings.Contains(other, "[") {
			if from, ok = s.results[other]; !ok {
				return nil, fmt.Errorf("%q: the study has no run %q", place, other)
			}
			path = rest
		}

		v, found, err := walk(from, path)
		if n, isNumber := strconv.ParseFloat(words[i], 64); isNumber == nil {
			v, found, err = n, true, nil
		}

		if err != nil {
			return nil, fmt.Errorf("%q: %w", place, err)
		}

		if !found {
			return nil, nil
		}

		operator := "+"
		if i > 0 {
			operator = words[i-1]
		}

		switch operator {
		case "+":
			total += v
		case "-":
			total -= v
		case "*":
			total *= v
		case "/":
			if v == 0 {
				return nil, nil
			}
			total /= v
		default:
			return nil, fmt.Errorf("%q: unknown operator %q", place, operator)
		}
	}

	return doc.Some(total / scale(unitName)), nil
}

// terms are the words between spaces; those in brackets are part of a label.
func terms(text string) (words []string) {
	for _, word := range strings.Fields(text) {
		last := len(words) - 1
		if last >= 0 && strings.Count(words[last], "[") > strings.Count(words[last], "]") {
			words[last] += " " + word
		} else {
			words = append(words, word)
		}
	}

	return words
}

// scale is what a figure of a result is divided by for a unit.
func scale(unitName string) float64 {
	return cmp.Or(map[string]float64{
		"MiB": 1 << 20,
		"GiB": 1 << 30,
		"TiB": 1 << 40,
		"%":   0.01,
		"us":  1e3,
	}[unitName], 1)
}

// walk adds up what is at path below node.
func walk(node any, path string) (sum float64, found bool, err error) {
	name, choice, rest, err := step(path)
	if err != nil {
		return 0, false, err
	}

	switch v := node.(type) {
	case nil:
		return 0, false, nil
	case []any:
		for _, item := range v {
			one, ok, err := walk(item, path)
			if err != nil {
				return 0, false, err
			}
			sum, found = sum+one, found || ok
		}
		return sum, found, nil
	case map[string]any:
		if path == "" {
			break
		}

		below := v[name]
		if list, is := below.([]any); is {
			below = slices.DeleteFunc(slices.Clone(list), func(item any) bool {
				chosen, wrong := matches(item, choice)
				err = cmp.Or(err, wrong)
				return !chosen
			})
		}

		if err != nil {
			return 0, false, err
		}

		return walk(below, rest)
	case json.Number:
		if path == "" {
			sum, err = v.Float64()
			return sum, err == nil, err
		}
	}

	if path == "" {
		err = fmt.Errorf("%T is no figure", node)
	}

	return 0, false, err
}

// step is the first name of a path with the choice behind it, and what follows.
func step(path string) (name, choice, rest string, err error) {
	name = path
	if at := strings.IndexAny(path, ".["); at >= 0 {
		name, rest = path[:at], strings.TrimPrefix(path[at:], ".")
	}

	if strings.HasPrefix(rest, "[") {
		inside, after, closed := strings.Cut(rest[1:], "]")
		if choice, rest = inside, strings.TrimPrefix(after, "."); !closed {
			err = fmt.Errorf("%q: no ] after [", path)
		} else if strings.HasPrefix(rest, "[") {
			err = fmt.Errorf("%q: several choices go into one pair of brackets, with commas", path)
		}
	}

	return name, choice, rest, err
}

// matches tells whether an item has the values that a choice names. A size such as 32MiB
// stands for its bytes.
func matches(item any, choice string) (bool, error) {
	if choice == "" {
		return true, nil
	}

	for _, one := range strings.Split(choice, ",") {
		name, want, ok := strings.Cut(one, "=")
		if !ok {
			return false, fmt.Errorf("choice %q: write [name=value]", one)
		}

		value := item
		for _, part := range strings.Split(name, ".") {
			object, _ := value.(map[string]any)
			value = object[part]
		}

		if fmt.Sprint(value) == want {
			continue
		}

		bytes, err := unit.ParseBytes(want)
		if err != nil || fmt.Sprint(value) != strconv.FormatInt(bytes, 10) {
			return false, nil
		}
	}

	return true, nil
}

func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // bytes stay exact
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return v, nil
}

// parsePublished reads a figure or a range, "2.25" or "1-2", or what several give with " / " and "
// * " between them, from left to right: a ratio of published figures. parts are these figures, as
// published.
func parsePublished(
	text, unitName, source string,
) (p subject.Published, parts []subject.Published, err error) {
	p = subject.Published{Low: 1, High: 1, Unit: unitName, Source: source}
	words := strings.Fields(text)
	for i := 0; i < len(words); i += 2 {
		part, operator := subject.Published{}, "*"
		low, high, isRange := strings.Cut(words[i], "-")
		if !isRange {
			high = low
		}

		var wrong error
		part.Low, err = strconv.ParseFloat(low, 64)
		part.High, wrong = strconv.ParseFloat(high, 64)
		if i > 0 {
			operator = words[i-1]
		}

		divides := operator == "/" && part.Low > 0
		if err != nil || wrong != nil || part.High < part.Low || operator != "*" && !divides {
			break
		}

		if divides {
			p.Low, p.High = p.Low/part.High, p.High/part.Low
		} else {
			p.Low, p.High = p.Low*part.Low, p.High*part.High
		}

		parts = append(parts, part)
	}

	if len(words) != 2*len(parts)-1 {
		return p, nil, fmt.Errorf("published %q: must be a number, a range such as 1-2, or a "+
			"ratio such as 3 / 2", text)
	}

	return p, parts, nil
}
