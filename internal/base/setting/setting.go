// Package setting gives settings types: what a flag or a field of an experiment file sets is
// parsed once, where it enters, and passed on as a value.
//
// Goals: a mistake does not stop the parser, so that all of them are reported together; the text
// is kept only to show and store it.
// Non-goals: knowing which settings there are (plan/experiment, cmd/statelab), and judging them
// against a machine or a database.
package setting

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Setting is what flags and files set: a Value of any kind, or Options.
type Setting interface {
	pflag.Value
	yaml.Marshaler
	yaml.Unmarshaler // whose error holds a Mistake for each thing that is wrong
	// Errs is what is wrong with the text that was set last.
	Errs() []error
	// SetDefault sets the default.
	SetDefault(text string)
	// Form is how the setting is written.
	Form() Form
}

// Form is how a setting is written.
type Form int

// Forms of settings.
const (
	Single  Form = iota // one value
	Switch              // true or false
	List                // several values, separated by commas or as a sequence
	Mapping             // names with one or several values each
)

// Mistake is a value that a setting cannot have.
type Mistake struct {
	Value        string // as written; "" where Text says it
	Text         string
	Line, Column int // in a file; 0 elsewhere
}

// Error is the value that was typed, and what is wrong with it.
func (m *Mistake) Error() string {
	if m.Value == "" {
		return m.Text
	}
	return fmt.Sprintf("%q: %s", m.Value, m.Text)
}

// Value is a setting of one value or, where it is an axis, of several. The zero Value has no
// kind; declare it with One or Axis.
type Value[T any] struct {
	kind   Kind[T]
	axis   bool
	texts  []string // canonical, one for each value
	values []T
	wrong  []error
	rest   *Value[T] // the default: what a mistake stands for, so that it is reported once
}

// One declares v as a setting of one value.
func One[T any](v *Value[T], kind Kind[T]) *Value[T] {
	v.kind, v.axis = kind, false
	return v
}

// Axis declares v as a setting of several values: every one is a point.
func Axis[T any](v *Value[T], kind Kind[T]) *Value[T] {
	v.kind, v.axis = kind, true
	return v
}

// NewValue returns a setting of values that need no parsing, without a declaration.
func NewValue[T any](values ...T) (v Value[T]) {
	v.SetValues(values...)
	return v
}

// SetValues sets values that need no parsing.
func (v *Value[T]) SetValues(values ...T) {
	v.values, v.texts, v.wrong = values, nil, nil
	for _, value := range values {
		text := fmt.Sprint(value)
		if v.kind.show != nil {
			text = v.kind.show(value)
		}
		v.texts = append(v.texts, text)
	}
}

// Value is the value, or the first of several; the zero value if none is given.
func (v *Value[T]) Value() (first T) {
	if len(v.values) > 0 {
		first = v.values[0]
	}
	return first
}

// All are the values; none if none is given.
func (v *Value[T]) All() []T { return v.values }

// Texts are the values as they are shown.
func (v *Value[T]) Texts() []string { return v.texts }

// IsSet tells whether there is a value, right or wrong.
func (v *Value[T]) IsSet() bool { return len(v.texts)+len(v.wrong) > 0 }

// Several tells whether the setting is an axis with more than one value.
func (v *Value[T]) Several() bool { return len(v.values) > 1 }

// Equal is for tests.
func (v Value[T]) Equal(other Value[T]) bool { return slices.Equal(v.texts, other.texts) }

// put parses texts, one for each value.
func (v *Value[T]) put(texts []string) {
	v.texts, v.values, v.wrong = nil, nil, nil
	for _, text := range texts {
		value, err := v.kind.Parse(text)
		if err != nil {
			if m, is := errors.AsType[*Mistake](err); is {
				err = &Mistake{Value: text, Text: m.Text}
			}
			v.wrong = append(v.wrong, err)
			continue
		}

		v.texts, v.values = append(v.texts, text), append(v.values, value)
	}

	if len(v.wrong) > 0 && len(v.values) == 0 && v.rest != nil {
		v.texts, v.values = v.rest.texts, v.rest.values
	}
}

// Split are the values of a list, without the spaces around them, which mean nothing.
func Split(text string) []string {
	if text == "" {
		return nil
	}
	values := strings.Split(text, ",")
	for i, value := range values {
		values[i] = strings.TrimSpace(value)
	}
	return values
}

// Set parses a text. It returns no error: Wrong does.
func (v *Value[T]) Set(text string) error {
	switch {
	case v.axis && text == "" && v.rest != nil && len(v.rest.values) > 0:
		v.put([]string{""}) // the kind says what it must be
	case v.axis:
		v.put(Split(text))
	case text == "" && v.kind.optional:
		v.put(nil)
	default:
		v.put([]string{text})
	}

	return nil
}

// SetDefault implements Setting.
func (v *Value[T]) SetDefault(text string) {
	v.put(nil)
	if text != "" || v.kind.optional {
		_ = v.Set(text) // Wrong has its error
	}
	v.rest = new(*v)
}

// Errs implements Setting.
func (v *Value[T]) Errs() []error { return v.wrong }

// String implements pflag.Value.
func (v *Value[T]) String() string { return strings.Join(v.texts, ",") }

// Type implements pflag.Value.
func (v *Value[T]) Type() string {
	return cmp.Or(v.kind.Name, "string")
}

// Form implements Setting.
func (v *Value[T]) Form() Form {
	switch {
	case v.axis:
		return List
	case v.kind.Name == Bool.Name:
		return Switch
	}
	return Single
}

// MarshalYAML implements Setting: a scalar, a sequence, or nil for no value.
func (v *Value[T]) MarshalYAML() (any, error) {
	if len(v.texts) == 0 {
		return nil, nil
	}

	if v.Form() == Switch {
		if is, err := strconv.ParseBool(v.texts[0]); err != nil || !is {
			return nil, nil
		}
		return sequence([]string{"true"}), nil
	}

	return sequence(v.texts), nil
}

// UnmarshalYAML implements Setting. What is left empty keeps its default.
func (v *Value[T]) UnmarshalYAML(n *yaml.Node) error {
	texts, err := read(n, v.axis)
	if err != nil || len(texts) == 0 {
		return err
	}

	if v.put(texts); len(v.wrong) == 0 {
		return nil
	}

	var all []error
	for _, wrong := range v.wrong {
		all = append(all, at(n, wrong))
	}

	return errors.Join(all...)
}

// at places a mistake in a file.
func at(n *yaml.Node, err error) error {
	m := Mistake{Text: err.Error()}
	if known, is := errors.AsType[*Mistake](err); is {
		m = *known
	}
	m.Line, m.Column = n.Line, n.Column
	return &m
}

// read reads a scalar or, if there may be several, a sequence.
func read(n *yaml.Node, several bool) (texts []string, err error) {
	switch {
	case n.Kind == yaml.ScalarNode && several:
		return Split(scalarOf(n)), nil
	case n.Kind == yaml.ScalarNode:
		if text := scalarOf(n); text != "" {
			return []string{text}, nil
		}
		return nil, nil
	case n.Kind != yaml.SequenceNode:
		return nil, at(n, errors.New("one value"))
	case !several && len(n.Content) > 1:
		return nil, at(n, errors.New("takes one value here"))
	}

	for _, item := range n.Content {
		text := scalarOf(item)
		switch {
		case item.Kind != yaml.ScalarNode:
			err = errors.Join(err, at(item, errors.New("one value")))
		case several && strings.Contains(text, ","):
			err = errors.Join(err, at(item, errors.New("a value without commas")))
		}

		if text = strings.TrimSpace(text); text != "" {
			texts = append(texts, text)
		}
	}

	return texts, err
}

func scalarOf(n *yaml.Node) string {
	if n.Value == "~" { // and "null" is the name of an engine and of a tree
		return ""
	}
	return n.Value
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

func sequence(values []string) *yaml.Node {
	if len(values) == 1 {
		return scalar(values[0])
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, v := range values {
		n.Content = append(n.Content, scalar(v))
	}
	return n
}

// Option is an option of what is measured, by the name that it has there, with its values:
// several are an axis.
type Option struct {
	Name   string
	Values []string
}

// Options are those of what is measured, in the order in which they were given.
type Options struct {
	all   []Option
	wrong []error
}

// All are the options.
func (o *Options) All() []Option { return o.all }

// Fixed are the options of one value: those that every point has.
func (o *Options) Fixed() map[string]string {
	fixed := map[string]string{}
	for _, option := range o.all {
		if len(option.Values) == 1 {
			fixed[option.Name] = option.Values[0]
		}
	}
	return fixed
}

// With are the options and one more.
func (o Options) With(option Option) Options {
	o.all = append(slices.Clip(o.all), option)
	return o
}

// Equal is for tests.
func (o Options) Equal(other Options) bool {
	return slices.EqualFunc(o.all, other.all, func(a, b Option) bool {
		return a.Name == b.Name && slices.Equal(a.Values, b.Values)
	})
}

// Set adds one option: Name=Value, or Name=A,B as an axis.
func (o *Options) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		o.wrong = append(o.wrong,
			&Mistake{Value: text, Text: "must be Name=Value (example: MemTableSize=64MiB)"})
		return nil
	}
	o.add(name, value)
	return nil
}

func (o *Options) add(name, value string) {
	values := []string{value}
	// nothing between commas is no value, as in a list of a file
	if several := Split(value); len(several) > 1 {
		values = slices.DeleteFunc(several, func(v string) bool { return v == "" || v == "~" })
	}

	if len(values) == 0 {
		values = []string{""}
	}

	o.all = append(slices.Clip(o.all), Option{name, values})
}

// Errs implements Setting.
func (o *Options) Errs() []error { return o.wrong }

// SetDefault implements Setting: there are none.
func (o *Options) SetDefault(string) { *o = Options{} }

// Form implements Setting.
func (o *Options) Form() Form { return Mapping }

// Texts are the options as they are typed.
func (o *Options) Texts() (all []string) {
	for _, option := range o.all {
		all = append(all, option.Name+"="+strings.Join(option.Values, ","))
	}
	return all
}

// String implements pflag.Value.
func (o *Options) String() string { return strings.Join(o.Texts(), " ") }

// Type implements pflag.Value.
func (o *Options) Type() string { return "option" }

// MarshalYAML implements Setting.
func (o *Options) MarshalYAML() (any, error) {
	if len(o.all) == 0 {
		return nil, nil
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, option := range o.all {
		n.Content = append(n.Content, scalar(option.Name), sequence(option.Values))
	}
	return n, nil
}

// UnmarshalYAML implements Setting.
func (o *Options) UnmarshalYAML(n *yaml.Node) (err error) {
	if n.Kind != yaml.MappingNode {
		return at(n, errors.New("a mapping of names to values"))
	}

	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if name == "" || strings.Contains(name, "=") {
			err = errors.Join(err, at(n.Content[i], fmt.Errorf("invalid option name %q", name)))
		}

		texts, wrong := read(n.Content[i+1], true)
		err = errors.Join(err, wrong)
		o.add(name, strings.Join(texts, ","))
	}

	return err
}

// Points are all combinations of options that have several values; labels name the values of
// those that vary.
func Points(options []Option) (settings []map[string]string, labels []string) {
	settings, labels = []map[string]string{{}}, []string{""}
	for _, o := range options {
		var nextSettings []map[string]string
		var nextLabels []string
		for i, s := range settings {
			for _, value := range o.Values {
				t := map[string]string{o.Name: value}
				maps.Copy(t, s)
				label := labels[i]
				if len(o.Values) > 1 {
					label += " " + o.Name + "=" + value
				}

				nextSettings, nextLabels = append(nextSettings, t), append(nextLabels, label)
			}
		}

		settings, labels = nextSettings, nextLabels
	}

	return settings, labels
}
