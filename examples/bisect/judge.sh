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
if [ ! -d good ]; then
	statelab sweep "$@" --out good
	exit
fi
rm -rf other
statelab sweep "$@" --out other || exit 125
code=0
statelab compare good other --fail-if "$limit" || code=$?
[ "$code" -le 1 ] || exit 128
exit "$code"
