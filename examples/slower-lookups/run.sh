#!/bin/sh
# Does my change make lookups slower?
#
# Both sides read one database with one thread and equal seeds, so that block reads repeat exactly and
# one run each is enough. Here the change is a smaller cache; yours is another build of statelab or
# of an engine (examples/ci has the workflow). --fail-if makes the last command fail.
# Answer: more block reads per Get
set -eu
KEYS=${KEYS:-500k} GETS=${GETS:-50k}

statelab load --db db --keys "$KEYS"
statelab sweep --db db --cache 4MiB --gets "$GETS" --warmup "$GETS" --out before
statelab sweep --db db --cache 2MiB --gets "$GETS" --warmup "$GETS" --out after
if statelab compare before after --fail-if 'block_reads_per_get > +2%'; then
	echo "passed"
else
	echo "failed, as it should"
fi
