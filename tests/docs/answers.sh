#!/usr/bin/env bash
# The answers that README.md and docs/ show are those that the program gives: a ```text block after "<!-- answer: COMMAND -->" holds lines of
# the command's output, in their order. Lines may be left out, none added; how long a search took is not compared.
#
#   answers.sh SOURCE_DIR BINARY_DIR
set -euo pipefail
source_dir=$(realpath "$1") binary_dir=$(realpath "$2")
# shellcheck source=tests/docs/commands.sh
. "$(dirname "$0")/commands.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make_clone "$scratch" "$source_dir" "$binary_dir"
cd "$scratch"
export PATH=$binary_dir/src/app:$PATH

answers_of() { sed -n 's/^<!-- answer: \(.*\) -->$/\1/p' "$1"; } # PAGE

block_after() { # PAGE COMMAND
  awk -v wanted="<!-- answer: $2 -->" '$0 == wanted {found = 1; next} found && /^```text/ {inside = 1; next} /^```/ {if (inside) exit} inside' "$1"
}

without_duration() { sed -E 's/^(search +[a-z ]*after) [0-9.]+ [a-z]+/\1 TIME/'; }

# Prints the first line of the block that the output lacks, at its place.
first_absent() { awk 'NR == FNR {lines[++count] = $0; next} {while (++at <= count && lines[at] != $0); if (at > count) {print; exit}}' "$2" "$1"; } # BLOCK OUTPUT

passed=0 failed=0
while IFS= read -r page; do
  while IFS= read -r line; do
    eval "$line" 2>&1 </dev/null | without_duration >output || true
    block_after "$page" "$line" | without_duration >block
    absent=$(first_absent block output)
    if [ -s block ] && [ -z "$absent" ]; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      echo "${page#"$source_dir"/}: the output of \"$line\" does not have the line \"$absent\" there; the page's block and the output:"
      diff block output || true
    fi
  done < <(answers_of "$page")
done < <(echo "$source_dir/README.md" && find "$source_dir/docs" -name '*.md' | LC_ALL=C sort)
echo "$passed answers of the documents are the program's, $failed are not"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
