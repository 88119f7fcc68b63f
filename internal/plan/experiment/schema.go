package experiment

import (
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/setting"
)

// known are the fields of all verbs in the order of files, each as the verb declares it that takes
// most values, and the verbs that take each.
func known() (fields []Field, verbs map[string][]string) {
	verbs = map[string][]string{}
	for _, verb := range Measures() {
		for _, f := range New(verb).Fields() {
			at := slices.IndexFunc(fields, func(known Field) bool { return known.Key == f.Key })
			switch {
			case at < 0:
				fields = append(fields, f)
			case f.To.Form() == setting.List:
				fields[at] = f
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
	switch f.To.Form() {
	case setting.Switch:
		s = map[string]any{"type": "boolean"}
	case setting.Mapping:
		s = map[string]any{"type": "object", "additionalProperties": several}
	case setting.List:
		s = several
	}
	s["description"] = about
	if f.Value != "" && len(verbs) == 1 {
		s["default"] = f.Value
	}
	return s
}
