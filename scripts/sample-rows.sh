#!/bin/sh
# Loads a real file of 100,000 rows by four processes, scans it back, and compares byte for byte.
#
#   scripts/sample-rows.sh [DIRECTORY [ROWS]]
#
# The rows are lines of source code from this machine's Rust: those of the crates that this project depends on. The key is
# `path:line`, the value is the line. Everything goes into DIRECTORY, a fresh temporary one if none is given.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
directory=${1:-$(mktemp -d)}
rows=${2:-100000}
mkdir -p "$directory"
LC_ALL=C
export LC_ALL

sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
[ -d "$sources" ] || sources=$(rustc --print sysroot)/lib/rustlib/src
[ -d "$sources" ] || { echo "no sources: run \`cargo fetch\` first" >&2; exit 1; }

# A path with a tab would end the key, and is left out.
# What is past the last row is not read; that the pipe breaks then is no failure.
(cd "$sources" && find . -name '*.rs' -type f | sort | tr '\n' '\0' | xargs -0 awk -v rows="$rows" '
    FILENAME ~ /\t/ { next }
    n < rows { printf "%s:%07d\t%s\n", substr(FILENAME, 3), FNR, $0; n++ }
    n >= rows { exit }
' 2>/dev/null) | head -n "$rows" > "$directory/rows.tsv"
found=$(wc -l < "$directory/rows.tsv")
[ "$found" -eq "$rows" ] || { echo "expected $rows lines of source code, found $found" >&2; exit 1; }

cargo build --quiet --release --manifest-path "$here/Cargo.toml" --workspace --bins
commit_log="$here/target/release/commit-log"

rm -rf "$directory/store"
"$commit_log" load "$directory/store" --from "$directory/rows.tsv" --writers 4
sort -t "$(printf '\t')" -k 1,1 "$directory/rows.tsv" > "$directory/expected.tsv"
"$commit_log" scan "$directory/store" > "$directory/scanned.tsv"
cmp "$directory/expected.tsv" "$directory/scanned.tsv"
echo "$rows rows, $(wc -c < "$directory/rows.tsv") bytes: what was loaded is what is there, byte for byte"
