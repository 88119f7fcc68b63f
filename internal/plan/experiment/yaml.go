package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
)

// maxBytes bounds what is read of an experiment file.
const maxBytes = 1 << 20

// Write writes e as a file that Parse reads back as e. Values that are empty are
// left out; defaults are written, so that the file means the same in a version with
// other defaults, but for those of a cluster where there is none.
func (e *Experiment) Write(out io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	put(root, "schema", scalar(schema.Experiment))
	put(root, "measure", scalar(e.Measure))
	for _, f := range e.Fields() {
		if f.Key == "cluster.scratch" && e.Scratch.Value() == f.Value && !e.Where.Value().Cluster {
			continue
		}

		// Of a database that is there already, its manifest says what it was loaded with.
		loads := e.Measure == Load || !e.DB.IsSet()
		if !loads && strings.HasPrefix(f.Key, "load.") && f.Dest.String() == f.Value {
			continue
		}

		value, err := f.Dest.MarshalYAML()
		if err != nil {
			return fmt.Errorf("write %s: %w", f.Key, err)
		}

		if value != nil {
			section, name := at(root, f.Key)
			put(section, name, value.(*yaml.Node))
		}
	}

	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return fmt.Errorf("write the experiment: %w", err)
	}

	return encoder.Close()
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

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
	places map[string]*yaml.Node // by key
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
		return nil, fmt.Errorf("%s has more than %d bytes: it is not an experiment file", path,
			maxBytes)
	}

	return Parse(path, text)
}

// notExperiment says that a file is none, and how to make one.
func notExperiment(path string, err error) error {
	return fmt.Errorf("%s: not an experiment file, which is YAML (%w); statelab sweep "+
		"--print-experiment makes one", path, err)
}

// Parse reads text as an experiment; path names it in messages.
func Parse(path string, text []byte) (*Document, error) {
	d := &Document{path: path, places: map[string]*yaml.Node{}}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&document); err != nil {
		return nil, notExperiment(path, err)
	}

	switch err := decoder.Decode(new(yaml.Node)); {
	case err == nil:
		return nil, fmt.Errorf("%s: a file holds one experiment, without a second document after "+
			"---", path)
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

// Place implements setting.Written: a mistake of the experiment is told by the line and the key
// of the field that a flag would set.
func (d *Document) Place(flag string) (place string) {
	f, is := d.ByFlag(flag)
	if n := d.places[f.Key]; is && n != nil {
		return fmt.Sprintf("%s:%d:%d: ", d.path, n.Line, n.Column)
	}
	return d.path + ": "
}

// Name implements setting.Written: --cache 1% is subject.cache: 1% in a file.
func (d *Document) Name(flag, value string) string {
	f, is := d.ByFlag(flag)
	switch {
	case !is:
		return setting.Flag(flag, value)
	case value == "" && f.Dest.Form() == setting.Switch:
		return f.Key + ": true"
	case value == "":
		return f.Key
	}

	return f.Key + ": " + value
}

// reader collects all mistakes of a file.
type reader struct {
	document *Document
	mistakes []error
}

func (r *reader) wrong(at *yaml.Node, key, format string, args ...any) {
	r.add(&setting.Mistake{Text: fmt.Sprintf(format, args...), Line: at.Line, Column: at.Column},
		key)
}

// add adds the mistakes that err holds about the field at key.
func (r *reader) add(err error, key string) {
	if all, are := err.(interface{ Unwrap() []error }); are {
		for _, one := range all.Unwrap() {
			r.add(one, key)
		}
		return
	}

	if key != "" {
		key += ": "
	}

	if m, is := errors.AsType[*setting.Mistake](err); is {
		r.mistakes = append(r.mistakes,
			fmt.Errorf("%s:%d:%d: %s%w", r.document.path, m.Line, m.Column, key, err))
	}
}

func (r *reader) err() error { return errors.Join(r.mistakes...) }

// verb finds what is measured, which decides on all other fields.
func (r *reader) verb(root *yaml.Node) {
	version, measure := schema.Experiment, (*yaml.Node)(nil)
	for i := 0; i < len(root.Content); i += 2 {
		switch key, value := root.Content[i], root.Content[i+1]; key.Value {
		case "schema":
			if version = value.Value; version != schema.Experiment {
				r.wrong(value, "schema", "%q is not known to this version, which reads %s", version,
					schema.Experiment)
			}
		case "measure":
			measure = value
		}
	}

	switch {
	case measure == nil:
		r.wrong(root, "measure", "missing: one of %s", strings.Join(Measures(), ", "))
	case measure.Value != oneRead && !slices.Contains(Measures(), measure.Value):
		r.wrong(measure, "measure", "invalid value %q: one of %s", measure.Value,
			strings.Join(Measures(), ", "))
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
	fields, _ := known()
	return slices.ContainsFunc(fields, func(f Field) bool {
		return strings.HasPrefix(f.Key, key+".")
	})
}

func (r *reader) field(name, value *yaml.Node, key string) {
	all := r.document.Fields()
	i := slices.IndexFunc(all, func(f Field) bool { return f.Key == key })
	if i >= 0 {
		r.document.places[key] = value
		if err := all[i].Dest.UnmarshalYAML(value); err != nil {
			r.add(err, key)
		}
		return
	}

	if _, verbs := known(); verbs[key] != nil {
		r.wrong(name, key, "%s does not take it (%s do)", r.document.Measure,
			strings.Join(verbs[key], ", "))
		return
	}

	r.wrong(name, key, "there is no such field; statelab run --schema lists them")
}

// Stored reads the experiment of an interrupted command from the folder of its results; verb is
// the one expected, "" for any.
func Stored(out, verb string) (*Document, error) {
	d, err := ReadFile(filepath.Join(out, File))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, old := os.Stat(filepath.Join(out, "plan.json")); old == nil {
			return nil, fmt.Errorf("%s was begun by statelab 0.1.0: continue it with that "+
				"version, or measure into a new --out", out)
		}
		return nil, fmt.Errorf("%s holds no interrupted experiment: there is no %s; name the "+
			"--out folder of the interrupted command", out, File)
	case err == nil && verb != "" && d.Measure != verb:
		return nil, fmt.Errorf("%s holds the results of statelab %s, not of %s", out, d.Measure,
			verb)
	}

	return d, err
}
