#!/bin/sh
# Is my cache too small?
#
# On a node, advise reads its chaindata and the size of its cache, and nothing is loaded. Here a database
# stands in for it, and --cache says what its node uses.
# Answer: about [0-9.]+\s+block\s+reads
set -eu
KEYS=${KEYS:-2M}

statelab load --db chaindata --keys "$KEYS"
statelab advise chaindata --cache 4MiB --memory 64MiB --out advice
