package experiment

import (
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/setting"
)

// known are the fields of all verbs in the order of files, and the verbs that take each.
func known() (fields []Field, verbs map[string][]string) {
	verbs = map[string][]string{}
	for _, verb := range Measures() {
		for _, f := range New(verb).Fields() {
			if verbs[f.Key] == nil {
				fields = append(fields, f)
			}
			verbs[f.Key] = append(verbs[f.Key], verb)
		}
	}
	return fields, verbs
}

// JSONSchema describes experiment files to editors, from the fields of all verbs.
func JSONSchema() map[string]any {
	object := func() map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
	}
	root := object()
	properties := root["properties"].(map[string]any)
	properties["schema"] = map[string]any{"const": Schema}
	properties["measure"] = map[string]any{"enum": append(Measures(), oneRead), "description": "what to measure: the verb"}
	fields, verbs := known()
	for _, f := range fields {
		section, name, nested := strings.Cut(f.Key, ".")
		into := properties
		if nested {
			if properties[section] == nil {
				properties[section] = object()
			}
			into = properties[section].(map[string]any)["properties"].(map[string]any)
		} else {
			name = section
		}
		into[name] = f.schema(verbs[f.Key])
	}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Statelab experiment"
	root["required"] = []string{"measure"}
	return root
}

func (f Field) schema(verbs []string) map[string]any {
	about := f.About
	if len(verbs) < len(Measures()) {
		about = strings.TrimSpace(about + " (" + strings.Join(verbs, ", ") + ")")
	}
	value := map[string]any{"type": []string{"string", "number"}}
	several := map[string]any{"anyOf": []any{value, map[string]any{"type": "array", "items": value}}}
	s := value
	switch axis := slices.ContainsFunc(verbs, func(verb string) bool { return New(verb).form(f.Key) == setting.List }); {
	case f.To.Form() == setting.Switch:
		s = map[string]any{"type": "boolean"}
	case f.To.Form() == setting.Mapping:
		s = map[string]any{"type": "object", "additionalProperties": several}
	case axis:
		s = several
	}
	s["description"] = about
	if f.Value != "" && len(verbs) == 1 {
		s["default"] = f.Value
	}
	return s
}

// form is how a field is written in e's file; Single for one that e does not have.
func (e *Experiment) form(key string) setting.Form {
	for _, f := range e.Fields() {
		if f.Key == key {
			return f.To.Form()
		}
	}
	return setting.Single
}
