#!/bin/sh
# Which tree for my chain?
#
# Generated transfers stand in for a chain's change sets: statelab changeset harvest takes them from
# a node. Trees that compute roots by the same rule must agree on every root, or the replay fails.
# A leaf is one entry of a tree, a key and its value.
# Answer: leaves/s
set -eu
VERSIONS=${VERSIONS:-200} SCALE=${SCALE:-0.02} TREES=${TREES:-iavl0,iavl1}

statelab changeset generate --profile bank --versions "$VERSIONS" --scale "$SCALE" --out changes
statelab replay --tree "$TREES" --changes changes --repeats 3 --out replay
