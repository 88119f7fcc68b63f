package setting

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
	return slices.EqualFunc(o.all, other.all, func(a, b Option) bool { return a.Name == b.Name && slices.Equal(a.Values, b.Values) })
}

// Set adds one option: Name=Value, or Name=A,B as an axis.
func (o *Options) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		o.wrong = append(o.wrong, &Mistake{Value: text, Text: "must be Name=Value (example: MemTableSize=64MiB)"})
		return nil
	}
	o.add(name, value)
	return nil
}

func (o *Options) add(name, value string) {
	values := []string{value}
	if several := Split(value); len(several) > 1 { // nothing between commas is no value, as in a list of a file
		values = slices.DeleteFunc(several, func(v string) bool { return v == "" || v == "~" })
	}
	if len(values) == 0 {
		values = []string{""}
	}
	o.all = append(slices.Clip(o.all), Option{name, values})
}

// Wrong implements Setting.
func (o *Options) Wrong() []error { return o.wrong }

// Fall implements Setting: there are none.
func (o *Options) Fall(string) { *o = Options{} }

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
