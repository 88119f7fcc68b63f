#!/bin/sh
# What will a lookup cost at 20 billion keys?
#
# Nobody builds that database on a laptop. Its levels follow from how Pebble fills them, and a model
# of Pebble's cache does the rest (docs/prediction.md).
# Answer: [Bb]lock reads
set -eu
KEYS=${KEYS:-20B} GETS=${GETS:-1M}

statelab predict --keys "$KEYS" --cores 32 --gets "$GETS" --warmup "$GETS" --cache 0.1%,0.2%,1%
