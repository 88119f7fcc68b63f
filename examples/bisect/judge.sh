#!/bin/sh
# Judges a commit of a library for git bisect run, as README.md shows: judge.sh MODULE LIMIT FLAGS...
# In a clone of the library; the first commit that it sees is the good one. It answers 0 good, 1 bad, 125 does not
# build or run. What it makes is in the folder statelab below .git.
set -eu
module=$1 limit=$2
shift 2
source=$(cd "$(dirname "$0")/../.." && pwd)
library=$PWD
work=$(git rev-parse --absolute-git-dir)/statelab
mkdir -p "$work"
cp "$source/go.mod" "$source/go.sum" "$work"
go mod edit -replace "$module=$library" "$work/go.mod"
cd "$source"
CGO_ENABLED=0 go build -mod=mod -modfile="$work/go.mod" -o "$work/statelab" ./cmd/statelab || exit 125
PATH=$work:$PATH STATELAB_CGO=0
export PATH STATELAB_CGO
cd "$work"
good=good-$(printf '%s\n' "$module" "$@" | cksum | cut -d' ' -f1)
if [ ! -d "$good" ]; then
	rm -rf first
	statelab sweep "$@" --out first || exit 128 # git bisect stops
	mv first "$good"
	exit 0
fi
rm -rf other
statelab sweep "$@" --out other || exit 125
statelab compare "$good" other >/dev/null || exit 128 # they cannot be compared at all
statelab compare "$good" other --fail-if "$limit" || exit 1
