#!/bin/sh
# Is my cache too small?
#
# On a node, advise reads its chaindata and nothing is loaded. Here a database stands in for it.
# Answer: about [0-9.]+\s+block\s+reads
set -eu
KEYS=${KEYS:-2M}

statelab load --db chaindata --keys "$KEYS" --cache 4MiB
statelab advise chaindata --memory 64MiB --out advice
