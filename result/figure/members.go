package figure

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Members are figures that a struct stores beside its other fields: pointers to these fields, by
// the figure whose key is their name in JSON. The struct leaves them out of its own JSON, by the
// tag "-", and has two methods:
//
//	func (p PredictedPoint) MarshalJSON() ([]byte, error) {
//		type plain PredictedPoint
//		return p.members().Marshal(plain(p))
//	}
//	func (p *PredictedPoint) UnmarshalJSON(text []byte) error {
//		type plain PredictedPoint
//		return p.members().Unmarshal(text, (*plain)(p))
//	}
//
// A field is a float64, which is always written; a Value, a pointer, a map or a slice, which are
// left out where they are absent, nil or empty.
type Members map[Figure]any

// Marshal writes a struct as a JSON object with the members among its own.
func (m Members) Marshal(plain any) ([]byte, error) { return m.MarshalWith(plain, Set{}) }

// MarshalWith writes the numbers of a set, too. Its reasons are stored elsewhere.
func (m Members) MarshalWith(plain any, s Set) ([]byte, error) {
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}

	all := map[string]json.RawMessage{}
	for f, field := range m {
		value, err := json.Marshal(field)
		if err != nil {
			return nil, err
		}

		if value[0] == 'n' || string(value) == "{}" || string(value) == "[]" { // nil, or empty
			continue
		}

		all[f.Key] = value
	}

	for key, v := range s.values {
		if !v.known {
			continue
		}

		if all[key], err = json.Marshal(v); err != nil {
			return nil, err
		}
	}

	return join(text, all), nil
}

// join puts members at the end of the object in text, in the order of their names.
func join(text []byte, members map[string]json.RawMessage) []byte {
	out := bytes.TrimSuffix(text, []byte("}"))
	separator := []byte(",")
	if len(out) == 1 { // it has no member of its own
		separator = nil
	}

	for _, key := range slices.Sorted(maps.Keys(members)) {
		out = slices.Concat(out, separator, []byte(`"`+key+`":`), members[key])
		separator = []byte(",")
	}

	return append(out, '}')
}

// Unmarshal reads a JSON object that Marshal has written, or an older version.
func (m Members) Unmarshal(text []byte, plain any) error {
	if err := json.Unmarshal(text, plain); err != nil {
		return err
	}

	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}

	for f, field := range m {
		value, is := all[f.Key]
		if !is {
			continue
		}

		if err := json.Unmarshal(value, field); err != nil {
			return err
		}
	}

	return nil
}

// UnmarshalWith reads the numbers of registered figures that are not members into a set.
func (m Members) UnmarshalWith(text []byte, plain any, s *Set) error {
	if err := m.Unmarshal(text, plain); err != nil {
		return err
	}

	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}

	for f := range m {
		delete(all, f.Key)
	}

	for key, value := range all {
		if !registered(key) || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
			continue
		}

		var v Value
		if err := json.Unmarshal(value, &v); err != nil {
			return err
		}

		s.put(key, v)
	}

	return nil
}
