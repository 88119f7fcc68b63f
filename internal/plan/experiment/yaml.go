package experiment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxBytes bounds what is read of an experiment file.
const maxBytes = 1 << 20

// Write writes e as a file that Parse reads back as e. Values that are empty are
// left out; defaults are written, so that the file means the same in a version with
// other defaults, but for those of a cluster where there is none.
func (e *Experiment) Write(out io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	put(root, "schema", scalar(Schema))
	put(root, "measure", scalar(e.Measure))
	for _, f := range e.taken() {
		if scratch, is := f.target.(*string); is && f.key == "cluster.scratch" && *scratch == f.value && e.Where == Here {
			continue
		}
		if value := node(f.target, f.isList(e.Measure)); value != nil {
			section, name := at(root, f.key)
			put(section, name, value)
		}
	}
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return fmt.Errorf("write the experiment: %w", err)
	}
	return encoder.Close()
}

// node is a field's value in the file, nil for none.
func node(value any, isList bool) *yaml.Node {
	switch v := value.(type) {
	case *string:
		if *v != "" {
			return scalar(*v)
		}
	case *bool:
		if *v {
			return scalar("true")
		}
	case *List:
		if values := v.Values(); isList && len(values) > 0 {
			return sequence(values)
		} else if len(values) > 0 {
			return scalar(string(*v))
		}
	case *[]string:
		options := &yaml.Node{Kind: yaml.MappingNode}
		for _, text := range *v {
			name, values, _ := strings.Cut(text, "=")
			if list := List(values); list.Several() {
				put(options, name, sequence(list.Values()))
			} else {
				put(options, name, scalar(values))
			}
		}
		if len(options.Content) > 0 {
			return options
		}
	}
	return nil
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

func put(mapping *yaml.Node, name string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, scalar(name), value)
}

// at is the mapping that holds a key, made if it is missing, and the key's name there.
func at(root *yaml.Node, key string) (mapping *yaml.Node, name string) {
	section, name, nested := strings.Cut(key, ".")
	if !nested {
		return root, section
	}
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == section {
			return root.Content[i+1], name
		}
	}
	mapping = &yaml.Node{Kind: yaml.MappingNode}
	put(root, section, mapping)
	return mapping, name
}

// Document is an experiment that was read from a file, with the places of its
// values.
type Document struct {
	Experiment
	path   string
	places map[string]place // by flag
}

type place struct {
	key  string
	node *yaml.Node
}

// ReadFile reads the experiment file at path, "-" for standard input. The error
// names every mistake with its line and column; with a document, which holds what was
// right, if it is known what is to be measured.
func ReadFile(path string) (*Document, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%s has more than %d bytes: it is not an experiment file", path, maxBytes)
	}
	return Parse(path, text)
}

// notExperiment says that a file is none, and how to make one.
func notExperiment(path string, err error) error {
	return fmt.Errorf("%s: not an experiment file, which is YAML (%w); statelab sweep --print-experiment makes one", path, err)
}

// Parse reads text as an experiment; path names it in messages.
func Parse(path string, text []byte) (*Document, error) {
	d := &Document{path: path, places: map[string]place{}}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&document); err != nil {
		return nil, notExperiment(path, err)
	}
	switch err := decoder.Decode(new(yaml.Node)); {
	case err == nil:
		return nil, fmt.Errorf("%s: a file holds one experiment, without a second document after ---", path)
	case err != io.EOF:
		return nil, notExperiment(path, err)
	}
	root := document.Content[0]
	r := &reader{document: d}
	if root.Kind != yaml.MappingNode {
		r.wrong(root, "", "an experiment is a mapping that begins with measure: sweep")
		return nil, r.err()
	}
	if r.verb(root); d.Measure == "" {
		return nil, r.err()
	}
	r.mapping(root, "")
	return d, r.err()
}

// Message is a mistake of the experiment in terms of its file: "--gets x" becomes
// the line and column of workload.gets.
func (d *Document) Message(text string) string {
	if strings.HasPrefix(text, d.path+":") {
		return text // of the file already
	}
	colon := ": "
	if match := flagName.FindStringSubmatch(text); match != nil {
		for name, p := range d.places {
			if match[1] == name {
				text, colon = fmt.Sprintf("%d:%d: %s", p.node.Line, p.node.Column, text), ":"
				break
			}
		}
	}
	return d.path + colon + strings.TrimPrefix(flagValue.ReplaceAllStringFunc(" "+text, func(found string) string {
		match := flagValue.FindStringSubmatch(found)
		for _, f := range d.taken() {
			if f.flag != match[2] {
				continue
			}
			switch _, yes := f.target.(*bool); {
			case yes && match[3] != ":":
				return match[1] + f.key + ": true" + match[3]
			case match[3] == " " || match[3] == "=":
				return match[1] + f.key + ": "
			}
			return match[1] + f.key + match[3]
		}
		return found
	}), " ")
}

var (
	flagName  = regexp.MustCompile(`^--([a-z-]+)`)
	flagValue = regexp.MustCompile(`( )--([a-z-]+)([ =:,;]|$)`)
)

// reader collects all mistakes of a file.
type reader struct {
	document *Document
	mistakes []error
}

func (r *reader) wrong(at *yaml.Node, key, format string, args ...any) {
	if key != "" {
		key += ": "
	}
	r.mistakes = append(r.mistakes, fmt.Errorf("%s:%d:%d: %s%s", r.document.path, at.Line, at.Column, key, fmt.Sprintf(format, args...)))
}

func (r *reader) err() error { return errors.Join(r.mistakes...) }

// verb finds what is measured, which decides on all other fields.
func (r *reader) verb(root *yaml.Node) {
	schema, measure := Schema, (*yaml.Node)(nil)
	for i := 0; i < len(root.Content); i += 2 {
		switch key, value := root.Content[i], root.Content[i+1]; key.Value {
		case "schema":
			if schema = value.Value; schema != Schema {
				r.wrong(value, "schema", "%q is not known to this version, which reads %s", schema, Schema)
			}
		case "measure":
			measure = value
		}
	}
	switch {
	case measure == nil:
		r.wrong(root, "measure", "missing: one of %s", strings.Join(Measures(), ", "))
	case measure.Value == oneRead:
		r.document.Experiment = *New(Sweep)
	case !slices.Contains(Measures(), measure.Value):
		r.wrong(measure, "measure", "invalid value %q: one of %s", measure.Value, strings.Join(Measures(), ", "))
	default:
		r.document.Experiment = *New(measure.Value)
	}
}

// mapping reads a section, or the whole file.
func (r *reader) mapping(m *yaml.Node, section string) {
	seen := map[string]bool{}
	for i := 0; i < len(m.Content); i += 2 {
		name, value := m.Content[i], m.Content[i+1]
		key := name.Value
		if section != "" {
			key = section + "." + key
		}
		switch {
		case seen[key]:
			r.wrong(name, key, "given twice")
		case section == "" && (key == "schema" || key == "measure"):
		case section == "" && isSection(key):
			if value.Kind != yaml.MappingNode {
				r.wrong(value, key, "a section with indented fields below it")
				break
			}
			r.mapping(value, key)
		default:
			r.field(name, value, key)
		}
		seen[key] = true
	}
}

func isSection(key string) bool {
	return slices.ContainsFunc(fields(new(Experiment)), func(f field) bool { return strings.HasPrefix(f.key, key+".") })
}

func (r *reader) field(name, value *yaml.Node, key string) {
	verb := r.document.Measure
	all := fields(&r.document.Experiment)
	i := slices.IndexFunc(all, func(f field) bool { return f.key == key })
	if i < 0 {
		r.wrong(name, key, "there is no such field; statelab run --schema lists them")
		return
	}
	f := all[i]
	if !f.takes(verb) {
		r.wrong(name, key, "%s does not take it (%s do)", verb, strings.Join(strings.Fields(f.of), ", "))
		return
	}
	r.document.places[f.flag] = place{key, value}
	switch to := f.target.(type) {
	case *string: // what is left empty has its default, as where it is left out
		*to = cmp.Or(r.scalar(value, key), *to)
	case *bool:
		is, err := strconv.ParseBool(r.scalar(value, key))
		if err != nil {
			r.wrong(value, key, "true or false")
		}
		*to = is
	case *List:
		values := r.values(value, key)
		if len(values) > 1 && !f.isList(verb) && f.key != "changes.stores" {
			r.wrong(value, key, "%s takes one value here (%s takes several)", verb, strings.Join(strings.Fields(f.lists), ", "))
		}
		*to = cmp.Or(List(strings.Join(values, ",")).tidy(), *to)
	case *[]string:
		if value.Kind != yaml.MappingNode {
			r.wrong(value, key, "a mapping of names to values")
			return
		}
		for i := 0; i < len(value.Content); i += 2 {
			name := value.Content[i].Value
			if name == "" || strings.Contains(name, "=") {
				r.wrong(value.Content[i], key, "invalid option name %q", name)
			}
			of := List(strings.Join(r.values(value.Content[i+1], key+"."+name), ","))
			if of.Several() {
				of = of.tidy()
			}
			*to = append(*to, name+"="+string(of))
		}
	}
}

func (r *reader) scalar(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode {
		r.wrong(n, key, "one value")
		return ""
	}
	if n.Value == "~" { // and "null" is the name of an engine and of a tree
		return ""
	}
	return n.Value
}

// values are those of a sequence, or one.
func (r *reader) values(n *yaml.Node, key string) []string {
	if n.Kind != yaml.SequenceNode {
		if text := r.scalar(n, key); text != "" {
			return []string{text}
		}
		return nil
	}
	var values []string
	for _, item := range n.Content {
		text := r.scalar(item, key)
		if strings.Contains(text, ",") {
			r.wrong(item, key, "a value without commas")
		}
		values = append(values, text)
	}
	return values
}

// Resolved is e with paths that hold wherever it is read.
func (e *Experiment) Resolved() (*Experiment, error) {
	r := *e
	for _, path := range []*string{&r.DB, &r.Changes, &r.Dir, &r.Ceiling} {
		if *path == "" || path == &r.Ceiling && (*path == "auto" || *path == "none") {
			continue
		}
		full, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("resolve %s: %w", *path, err)
		}
		*path = full
	}
	return &r, nil
}
