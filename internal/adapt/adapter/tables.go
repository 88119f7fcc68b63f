package adapter

import (
	"fmt"
	"strings"

	"github.com/statelab/statelab/engine"
)

// ChooseTable is the error of a database whose keys are in tables where none was
// chosen, or one that is not there.
func ChooseTable(chosen string, tables []engine.Table) error {
	var names []string
	for _, t := range tables {
		names = append(names, t.Name)
	}
	if chosen != "" {
		return fmt.Errorf("there is no table %s: the tables are %s", chosen, strings.Join(names, ", "))
	}
	return fmt.Errorf("its keys are in tables: choose one with --table NAME: %s", strings.Join(names, ", "))
}
