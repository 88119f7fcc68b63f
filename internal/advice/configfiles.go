package advice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// fileSetting is a value of a configuration file.
type fileSetting struct {
	name  string // with the names of the tables around it, separated by dots
	value string
	line  int // where it stands, from 1
}

// parseTOML lists the values of a TOML file, but those in arrays.
func parseTOML(text []byte) (all []fileSetting, err error) {
	var content map[string]any // for the mistakes that only the whole file shows
	if err := toml.Unmarshal(text, &content); err != nil {
		var damage *toml.DecodeError
		if errors.As(err, &damage) {
			line, _ := damage.Position()
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		return nil, err
	}

	var table []string
	p := unstable.Parser{}
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue {
			table = nil
			if e.Kind == unstable.Table {
				table, _ = tomlKey(&p, e)
			}
			continue
		}

		name, line := tomlKey(&p, e)
		value := string(e.Value().Data)
		if e.Value().Kind == unstable.Integer { // such as 134_217_728, or hexadecimal
			if n, err := strconv.ParseInt(value, 0, 64); err == nil {
				value = strconv.FormatInt(n, 10)
			}
		}

		all = append(all, fileSetting{
			name:  strings.Join(append(table[:len(table):len(table)], name...), "."),
			value: value,
			line:  line,
		})
	}

	return all, p.Error()
}

// tomlKey is the key of an expression, and its line.
func tomlKey(p *unstable.Parser, e *unstable.Node) (parts []string, line int) {
	for keys := e.Key(); keys.Next(); {
		key := keys.Node()
		parts = append(parts, string(key.Data))
		line = p.Shape(key.Raw).Start.Line
	}
	return parts, line
}

// parseJSON lists the values in the categories of a JSON file, {"Category": {"name": value}}.
func parseJSON(text []byte) (all []fileSetting, err error) {
	err = eachMember(text, func(category string, _ int, members []byte) error {
		if members[0] != '{' {
			return nil // such as "$schema"
		}

		before := bytes.Count(text[:offsetIn(text, members)], []byte("\n"))
		return eachMember(members, func(name string, line int, raw []byte) error {
			value := string(raw)
			if raw[0] == '"' {
				if err := json.Unmarshal(raw, &value); err != nil {
					return err
				}
			}

			all = append(all, fileSetting{category + "." + name, value, before + line})
			return nil
		})
	})

	return all, err
}

// eachMember calls do with the members of a JSON object, in order, and the lines of their names.
// Their values are parts of text.
func eachMember(text []byte, do func(name string, line int, value []byte) error) error {
	if !json.Valid(text) {
		var content any
		err := json.Unmarshal(text, &content)
		var damage *json.SyntaxError
		if errors.As(err, &damage) {
			return fmt.Errorf("line %d: %w", lineAt(text, damage.Offset), err)
		}
		return err
	}

	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}

	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}

		line := lineAt(text, d.InputOffset())
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}

		end := d.InputOffset()
		if err := do(fmt.Sprint(name), line, text[end-int64(len(value)):end]); err != nil {
			return err
		}
	}

	return nil
}

// offsetIn is where part, which is a part of text, begins in it.
func offsetIn(text, part []byte) int { return cap(text) - cap(part) }

// lineAt is the line of an offset, from 1.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}
