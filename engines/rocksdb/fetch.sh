#!/bin/sh
# Fetches RocksDB's library: the official Java artifact carries one that exports the
# whole C interface. Usage: fetch.sh [FILE [VERSION]], by default bin/lib/librocksdb.so and 11.8.1;
# a FILE that ends in .jar becomes the artifact itself, for programs in Java.
set -eu

version=${2:-11.8.1}
case $version in
11.8.1) sha256=265c656af5c6502cb8d71db1a74858509f706cc47f1a5b6f603c736d11ce677d ;;
9.7.3) sha256=d20606ba0e9a49eae8a284d33a348c53689158ee7c3cd1e2c44510138605bdb2 ;;
6.29.5) sha256=7792d7de34a44c005889337cad1c558b8968609246bad0bf1948bb714f088770 ;;
*) echo "fetch.sh: version $version is not known: 11.8.1, 9.7.3 and 6.29.5 are" >&2; exit 1 ;;
esac
inside=librocksdbjni-linux64.so

root=$(cd "$(dirname "$0")/../.." && pwd)
target=${1:-$root/bin/lib/librocksdb.so}

fail() { echo "fetch.sh: $*" >&2; exit 1; }
verified() { echo "$sha256  $1" | sha256sum --check --status; }

if [ -f "$target" ] && verified "$target"; then
	echo "$target is RocksDB $version already"
	exit 0
fi
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
	fail "the library is for Linux on x86_64: name one of your system in \$STATELAB_ROCKSDB_LIBRARY"
command -v mvn >/dev/null || fail "Maven is missing (Debian: apt install maven)"
command -v unzip >/dev/null || fail "unzip is missing (Debian: apt install unzip)"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mvn -q -B dependency:copy -Dartifact="org.rocksdb:rocksdbjni:$version" -DoutputDirectory="$folder" >"$folder/mvn.txt" 2>&1 ||
	{ cat "$folder/mvn.txt" >&2; fail "Maven could not fetch org.rocksdb:rocksdbjni:$version"; }
unzip -q "$folder/rocksdbjni-$version.jar" "$inside" -d "$folder" || fail "the artifact holds no $inside"
verified "$folder/$inside" || fail "$inside of version $version is not the one we know: its sha256 is not $sha256"
case $target in *.jar) inside=rocksdbjni-$version.jar ;; esac
mkdir -p "$(dirname "$target")"
cp "$folder/$inside" "$target.part"
mv "$target.part" "$target" # so that nobody loads half a file
echo "$target is RocksDB $version"
