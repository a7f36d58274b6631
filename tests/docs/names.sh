#!/usr/bin/env bash
# Fails if the documents name what is not there, and lists each missing name.
#
#   names.sh SOURCE_DIR
#
# - Links of README.md, CHANGELOG.md and docs/ lead to files that exist, and to headings that their pages have.
# - Paths in `backquotes` that begin with a folder of the sources exist; a program may stand for its source.
# - Names in `backquotes` with "::" occur in the sources, behind a module's name in that module.
# - docs/design/code-map.md: every other name in `backquotes` occurs in a file that its line names, or, where its line names none, in the
#   sources. A row of its last table, where to make a change, names a place, and of a whole folder what there is in it.
set -euo pipefail
cd "${1:?the source directory}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
map=docs/design/code-map.md
missing=0
miss() {
  echo "$1"
  missing=$((missing + 1))
}

pages=(README.md CHANGELOG.md)
while IFS= read -r page; do pages+=("$page"); done < <(find docs -name '*.md' | LC_ALL=C sort)
sources=(--include='*.?pp' --include='*.inc' --include='*.sh' --include='*.cmake' --include=CMakeLists.txt)
grep -rhoE "${sources[@]}" '[A-Za-z_][A-Za-z0-9_]*' src include slurm tests | LC_ALL=C sort -u >"$scratch/words"
in_sources() { LC_ALL=C grep -qxF -- "$1" "$scratch/words"; }

# The text of a page without code blocks.
prose() { awk '/^[ ]*```/ {fenced = !fenced; next} !fenced {print FNR ":" $0} fenced {next}' "$1"; }

# Headings of a page as the anchors that links name.
anchors() {
  awk '/^[ ]*```/ {fenced = !fenced; next} !fenced && /^#+ / {sub(/^#+ /, ""); print tolower($0)}' "$1" |
    sed -e 's/[^a-z0-9_ -]//g' -e 's/ /-/g'
}

links=0
for page in "${pages[@]}"; do
  while IFS=: read -r line target; do
    case $target in http://* | https://* | mailto:*) continue ;; esac
    links=$((links + 1))
    file=${target%%#*}
    path=$page
    [ -z "$file" ] || path=$(dirname "$page")/$file
    if [ ! -e "$path" ]; then
      miss "$page:$line: the link to '$target' leads nowhere"
    elif [ "$file" != "$target" ] && ! anchors "$path" | grep -qxF -- "${target#*#}"; then
      miss "$page:$line: '$path' has no heading '#${target#*#}'"
    fi
  done < <(prose "$page" | awk '{line = $0; sub(/:.*/, "", line); rest = $0
    while (match(rest, /\]\([^)]*\)/)) {print line ":" substr(rest, RSTART + 2, RLENGTH - 3); rest = substr(rest, RSTART + RLENGTH)}}')
done

paths=0 names=0
# One line for each name: PAGE LINE NAME PATHS, where PATHS are those that its line names.
quoted() {
  prose "$1" | awk -v page="$1" '{
    line = $0
    sub(/:.*/, "", line)
    rest = $0
    count = 0
    while (match(rest, /`[^`]+`/)) {quotes[++count] = substr(rest, RSTART + 1, RLENGTH - 2); rest = substr(rest, RSTART + RLENGTH)}
    paths = ""
    for (i = 1; i <= count; ++i) if (quotes[i] ~ /^(((src|include|tests|docs|slurm|examples|modules)(\/[A-Za-z0-9_.\/-]*)?)|profiles)$/) paths = paths "," quotes[i]
    for (i = 1; i <= count; ++i) printf "%s\t%s\t%s\t%s\n", page, line, quotes[i], paths
  }'
}

for page in "${pages[@]}"; do quoted "$page"; done >"$scratch/quoted"
while IFS=$'\t' read -r page line name near; do
  case ",$near," in
    *",$name,"*)
      paths=$((paths + 1))
      [ -e "$name" ] || [ -e "$name.cpp" ] || miss "$page:$line: the path '$name' does not exist"
      continue
      ;;
  esac
  if [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_~][A-Za-z0-9_]*)+(\(.*\))?$ ]]; then
    names=$((names + 1))
    for word in $(tr -cs 'A-Za-z0-9_' ' ' <<<"${name%%(*}"); do
      in_sources "$word" || miss "$page:$line: '$word' of '$name' is nowhere in the sources"
    done
    module=${name%%::*} rest=${name#*::}
    folders=$(ls -d "include/flotilla/$module" src/*/"$module" "src/$module" 2>/dev/null || true)
    # shellcheck disable=SC2086
    [ -z "$folders" ] || grep -rqw -- "${rest%%[!A-Za-z0-9_]*}" $folders || miss "$page:$line: '$name' is not in the module '$module'"
  fi
  [ "$page" = "$map" ] || continue
  [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*$ ]] || continue
  names=$((names + 1))
  last=${name##*::}
  files=()
  while IFS= read -r file; do [ ! -e "$file" ] || files+=("$file"); done < <(tr ',' '\n' <<<"$near" | grep .)
  if [ -z "$near" ]; then
    in_sources "$last" || miss "$page:$line: '$name' is nowhere in the sources"
  elif [ ${#files[@]} -gt 0 ] && ! grep -rqw -- "$last" "${files[@]}"; then
    miss "$page:$line: '$name' is not in ${files[*]}; it is in: $(grep -rlw --include='*.?pp' -- "$last" src include | head -3 | tr '\n' ' ')"
  fi
done <"$scratch/quoted"

rows=0
while IFS= read -r row; do
  rows=$((rows + 1))
  # shellcheck disable=SC2016
  places=$(grep -oE '`[^`]+`' <<<"${row#*|*|}" | tr -d '\`' || true)
  named=$(grep -E '^((src|include|tests)/.*|profiles)$' <<<"$places" || true)
  [ -n "$named" ] || miss "$map: '${row:0:60}...' names no place of the sources"
  while IFS= read -r place; do
    [ ! -d "$place" ] || [ "$(wc -l <<<"$places")" -gt "$(wc -l <<<"$named")" ] ||
      miss "$map: '${row:0:60}...' names the folder '$place', and nothing that is in it"
  done <<<"$named"
done < <(sed -n '/^## Where to make a change/,$p' "$map" | sed '1,/^|---/d' | grep '^|')
[ "$rows" -gt 0 ] || miss "$map: the table of where to make a change is not there"

echo "$links links, $paths paths and $names names of the documents: $missing missing"
[ "$missing" -eq 0 ] && [ "$links" -gt 0 ] && [ "$paths" -gt 0 ] && [ "$names" -gt 0 ]
