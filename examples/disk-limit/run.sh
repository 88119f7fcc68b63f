#!/bin/sh
# Is my disk the limit?
#
# disk measures what the device gives at most, without any engine. The sweep draws that as a
# ceiling over the Gets per second of each number of threads, and says what each point is bound by.
# Answer: reads/s
set -eu
KEYS=${KEYS:-1M} GETS=${GETS:-50k} SECONDS_EACH=${SECONDS_EACH:-1}

statelab load --db chaindata --keys "$KEYS"
statelab disk chaindata --in-flight 1,4,16 --repeats 3 --seconds "$SECONDS_EACH" --fio none --out limit
statelab sweep --db chaindata --cache 4MiB --threads 1,4,16 --gets "$GETS" --warmup "$GETS" --page-cache direct --disk limit --out sweep
