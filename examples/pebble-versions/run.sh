#!/bin/sh
# Is Pebble v2 better than Pebble v1 for my lookups?
#
# Each is loaded several times. They are measured in turns, pair by pair, until every figure is decided or the pairs are used up.
# The cache is a twentieth of the data, so that Gets read blocks.
# Answer: (Better|Worse|No difference found|Cannot tell)
set -eu
KEYS=${KEYS:-500k} GETS=${GETS:-100k} PAIRS=${PAIRS:-10}

statelab compare --run 'engine=pebble1' 'engine=pebble2' --keys "$KEYS" --gets "$GETS" --warmup "$GETS" --cache 4MiB --threads 4 \
	--repeats "$PAIRS" --page comparison.html
