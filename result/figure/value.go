package figure

import (
	"encoding/json"
	"maps"
	"slices"
)

// NotRecorded is the reason of a Value that nobody has set.
const NotRecorded = "not recorded"

// Value is a number, or the reason why there is none. The zero Value is not there.
type Value struct {
	number float64
	known  bool
	reason string // only where known is false; "": NotRecorded
}

// Known is the value of a figure that is there.
func Known(number float64) Value { return Value{number: number, known: true} }

// Unavailable is the value of a figure that is not there.
func Unavailable(reason string) Value { return Value{reason: reason} }

// If is the number that a pointer holds, which is nil where it was not counted.
func If[N int64 | float64](number *N) Value {
	if number == nil {
		return Value{}
	}

	return Known(float64(*number))
}

// Number is the number; known is false where there is none.
func (v Value) Number() (number float64, known bool) { return v.number, v.known }

// IsKnown tells whether there is a number.
func (v Value) IsKnown() bool { return v.known }

// OrZero is the number for callers that have asked whether it is there; else 0.
func (v Value) OrZero() float64 { return v.number }

// Pointer is the number, nil where there is none: what columns and charts take.
func (v Value) Pointer() *float64 {
	if !v.known {
		return nil
	}

	return &v.number
}

// Reason says why there is no number; "" where there is one.
func (v Value) Reason() string {
	switch {
	case v.known:
		return ""
	case v.reason == "":
		return NotRecorded
	}

	return v.reason
}

// IsZero tells encoding/json that there is nothing to write: the reason is stored elsewhere.
func (v Value) IsZero() bool { return !v.known }

// MarshalJSON writes the number, or null.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(v.Pointer()) }

// UnmarshalJSON reads a number, or null.
func (v *Value) UnmarshalJSON(text []byte) error {
	var number *float64
	if err := json.Unmarshal(text, &number); err != nil {
		return err
	}
	*v = If(number)

	return nil
}

// Set has figures of one run by their keys. The zero Set is empty, and ready to use. A copy shares
// what it holds with the original.
type Set struct {
	values map[string]Value
}

// Record sets a figure.
func (s *Set) Record(f Figure, number float64) { s.put(f.Key, Known(number)) }

// RecordIf sets a figure that may not have been counted: an absent value changes nothing.
func (s *Set) RecordIf(f Figure, v Value) {
	if v.known {
		s.put(f.Key, v)
	}
}

// Unavailable says why figures are not there. A number that they have is forgotten.
func (s *Set) Unavailable(reason string, figures ...Figure) {
	for _, f := range figures {
		s.put(f.Key, Unavailable(reason))
	}
}

// Value is a figure's; one that nobody has set is NotRecorded.
func (s Set) Value(f Figure) Value { return s.values[f.Key] }

// Number is a figure's number; known is false where there is none.
func (s Set) Number(f Figure) (number float64, known bool) { return s.values[f.Key].Number() }

// Has tells whether a figure has a number.
func (s Set) Has(f Figure) bool { return s.values[f.Key].known }

// Pointer is a figure's number, nil where there is none.
func (s Set) Pointer(f Figure) *float64 { return s.values[f.Key].Pointer() }

// OrZero is a figure's number for callers that have asked whether it is there; else 0.
func (s Set) OrZero(f Figure) float64 { return s.values[f.Key].number }

// Reason says why a figure is not there; "" where it is.
func (s Set) Reason(f Figure) string { return s.values[f.Key].Reason() }

// Numbers are the figures that have one, by key.
func (s Set) Numbers() map[string]float64 {
	numbers := map[string]float64{}
	for key, v := range s.values {
		if v.known {
			numbers[key] = v.number
		}
	}

	return numbers
}

// Absent are the reasons that somebody gave, by key: what is stored beside the numbers.
func (s Set) Absent() map[string]string {
	reasons := map[string]string{}
	for key, v := range s.values {
		if !v.known && v.reason != "" {
			reasons[key] = v.reason
		}
	}

	return reasons
}

// Explain takes the reasons in absent that are of figures. A figure that is 0 beside a reason is
// absent: that is how version 0.1.0 stored it. It returns the other reasons, which are of facts,
// nil where there are none.
func (s *Set) Explain(absent map[string]string) (others map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(absent)) {
		if !registered(key) {
			if others == nil {
				others = map[string]string{}
			}

			others[key] = absent[key]

			continue
		}

		if s.values[key].number == 0 {
			s.put(key, Unavailable(absent[key]))
		}
	}

	return others
}

// ForgetZeros forgets each 0 of a figure of which a 0 in a file says that nothing was measured.
func (s *Set) ForgetZeros(is func(Figure) bool) {
	for _, f := range all {
		if v := s.values[f.Key]; v.known && v.number == 0 && is(f) {
			delete(s.values, f.Key)
		}
	}
}

// IsEmpty tells that no figure has a number.
func (s Set) IsEmpty() bool {
	for _, v := range s.values {
		if v.known {
			return false
		}
	}

	return true
}

func (s *Set) put(key string, v Value) {
	if s.values == nil {
		s.values = map[string]Value{}
	}
	s.values[key] = v
}

// SetOf is a set of figures that are all there.
func SetOf(numbers map[Figure]float64) Set {
	var s Set
	for f, number := range numbers {
		s.Record(f, number)
	}

	return s
}
