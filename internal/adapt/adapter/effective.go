package adapter

import (
	"cmp"
	"fmt"
	"reflect"
)

// Effective are the exported fields of settings, a struct, by their names or the names that their tags
// have under the key effective.
func Effective(settings any) map[string]string {
	options := map[string]string{}
	of := reflect.ValueOf(settings)
	for i := range of.NumField() {
		if field := of.Type().Field(i); field.IsExported() {
			options[cmp.Or(field.Tag.Get("effective"), field.Name)] = fmt.Sprint(of.Field(i))
		}
	}
	return options
}
