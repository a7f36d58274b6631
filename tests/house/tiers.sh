#!/usr/bin/env bash
# The table of docs/design/ci.md and CTest's list are one: each pattern names an entry of its tier, each entry of the default tier is named,
# and each row of README's feature table has a row there.
#
#   tiers.sh SOURCE_DIR BINARY_DIR
set -euo pipefail
page=$1/docs/design/ci.md
entries() { ctest --test-dir "$2" -N "$1" '^all$' | sed -n 's/^ *Test *#[0-9]*: //p'; }
mapfile -t default < <(entries -LE "$2")
mapfile -t all < <(entries -L "$2")
[ ${#default[@]} -gt 0 ] || { echo "ctest lists no entry in $2"; exit 1; }
wrong=0
say() { echo "docs/design/ci.md: $*" && wrong=$((wrong + 1)); }

rows() { awk -F'|' '/^## What shows what/ {there = 1} there && /^\| / && $2 !~ /capability|---/ {print $2 "|" $3 "|" $4}' "$page"; }
patterns() { grep -o '`[^`]*`' <<<"$1" | tr -d '`'; }
declare -A named
match() { # PATTERN TIER ENTRY...
  local pattern=$1 tier=$2 entry found=""
  shift 2
  for entry; do
    # shellcheck disable=SC2053 # a pattern
    if [[ $entry == $pattern ]]; then found=1 named[$entry]=1; fi
  done
  [ -n "$found" ] || say "\`$pattern\` is no entry of the $tier tier"
}
capabilities=""
while IFS='|' read -r capability here more; do
  capabilities+="|${capability// /}"
  while read -r pattern; do match "$pattern" default "${default[@]}"; done < <(patterns "$here")
  while read -r pattern; do [ -z "$pattern" ] || match "$pattern" all "${all[@]}"; done < <(patterns "$more" || true)
done < <(rows)
for entry in "${default[@]}"; do
  [ -n "${named[$entry]:-}" ] || say "no row names the entry $entry: what capability does it show?"
done
while read -r feature; do
  case "$capabilities|" in *"|${feature// /}|"* | *"|${feature// /}:"*) ;; *) say "README's \"$feature\" has no row" ;; esac
done < <(sed -n 's/^| \*\*\([^*]*\)\*\* |.*/\1/p' "$1/README.md")
echo "${#default[@]} entries of the default tier, ${#all[@]} of --all alone; $wrong differences"
[ "$wrong" -eq 0 ]
