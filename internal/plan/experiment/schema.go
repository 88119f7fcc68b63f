package experiment

import "strings"

// JSONSchema describes experiment files to editors, from the table of fields.
func JSONSchema() map[string]any {
	object := func() map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
	}
	root := object()
	properties := root["properties"].(map[string]any)
	properties["schema"] = map[string]any{"const": Schema}
	properties["measure"] = map[string]any{"enum": Measures(), "description": "what to measure: the verb"}
	for _, f := range fields(new(Experiment)) {
		section, name, nested := strings.Cut(f.key, ".")
		into := properties
		if nested {
			if properties[section] == nil {
				properties[section] = object()
			}
			into = properties[section].(map[string]any)["properties"].(map[string]any)
		} else {
			name = section
		}
		into[name] = f.schema()
	}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Statelab experiment"
	root["required"] = []string{"measure"}
	return root
}

func (f field) schema() map[string]any {
	about := f.about
	if of := strings.Fields(f.of); len(of) < len(Measures()) {
		about = strings.TrimSpace(about + " (" + strings.Join(of, ", ") + ")")
	}
	value := map[string]any{"type": []string{"string", "number"}}
	several := map[string]any{"anyOf": []any{value, map[string]any{"type": "array", "items": value}}}
	s := value
	switch f.target.(type) {
	case *bool:
		s = map[string]any{"type": "boolean"}
	case *List:
		s = several
	case *[]string:
		s = map[string]any{"type": "object", "additionalProperties": several}
	}
	s["description"] = about
	if first := strings.Fields(f.value); len(first) > 0 && !strings.HasPrefix(f.value, " ") && !strings.Contains(first[0], "=") {
		s["default"] = first[0]
	}
	return s
}
