#!/bin/sh
# Compiles programs.c to an object, and declares its types and names in Go: bpf_bpfel.o and
# bpf_bpfel.go. The same compiler makes the same bytes.
# Usage: generate.sh FOLDER
set -eu

folder=$1
cd "$(dirname "$0")/.."

# What Go decodes or sets; types of maps and variables are declared anyway.
types=
for type in event_kind page_event_kind place call get together other_read fault page_event; do
	types="$types -type $type"
done

# Debian keeps asm/types.h in a folder of the processor. Structures are read as others that begin
# alike (together.c), and -mcpu=v3 is what Linux has known since 5.1.
# shellcheck disable=SC2086 # a list of words
exec go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -tags linux $types \
	-go-package probe -output-dir "$folder" bpf bpf/programs.c -- \
	-mcpu=v3 -Wall -Werror -fno-strict-aliasing \
	-idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
