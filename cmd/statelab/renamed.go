package main

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the release before this one work until the next one. Each use prints the new name.
var (
	renamedVerbs = map[string]string{
		"read": "sweep", "fidelity": "inspect --as node", "serve": "report --serve", "publish": "pack create", "verify": "pack verify", "site": "pack site",
		"workloads": "engines --workloads", "version": "--version",
	}
	renamedFlags = map[string]map[string]string{ // of the verbs that have them now
		"predict": {"layout": "levels"},
	}
	removedVerbs = map[string]string{
		"bisect": "bisect was removed: examples/bisect does the same with git bisect run and statelab compare --fail-if",
	}
)

// currentNames are args with the names of this release, and what to tell the user about those that
// were replaced.
func currentNames(args []string) (now, notes []string) {
	now = slices.Clone(args)
	at := slices.IndexFunc(now, isWord)
	helps := at >= 0 && now[at] == "help"
	if helps {
		at += 1 + slices.IndexFunc(now[at+1:], isWord)
	}
	if at < 0 || at >= len(now) {
		return now, nil
	}
	note := func(before, after string) {
		notes = append(notes, fmt.Sprintf("%q is now %q; the old name works until the next release", before, after))
	}
	if name, is := renamedVerbs[now[at]]; is {
		note("statelab "+now[at], "statelab "+name)
		words := strings.Fields(name)
		if helps { // help names commands alone
			words = slices.DeleteFunc(words, func(word string) bool { return !isWord(word) || word == "node" })
		}
		now = slices.Replace(now, at, at+1, words...)
	}
	if at >= len(now) {
		return now, notes
	}
	for before, after := range renamedFlags[now[at]] {
		for i, arg := range now {
			name, value, together := strings.Cut(arg, "=")
			if name != "--"+before {
				continue
			}
			note(name, "--"+after)
			if now[i] = "--" + after; together {
				now[i] += "=" + value
			}
		}
	}
	return now, notes
}

// removed is what to say of args that name a command that was removed; "" of others.
func removed(args []string) string {
	at := slices.IndexFunc(args, isWord)
	if at >= 0 && args[at] == "help" {
		at += 1 + slices.IndexFunc(args[at+1:], isWord)
	}
	if at < 0 || at >= len(args) {
		return ""
	}
	if args[at] == "predict" && slices.ContainsFunc(args, func(arg string) bool { return arg == "--validate" || strings.HasPrefix(arg, "--validate=") }) {
		return "predict --validate was removed: statelab-studies validate LOGS does it (in statelab's source: go run ./cmd/statelab-studies validate LOGS)"
	}
	return removedVerbs[args[at]]
}

func isWord(arg string) bool { return !strings.HasPrefix(arg, "-") }
