#!/usr/bin/env bash
# Runs every command that a ```console block of README.md and docs/ shows ("$ ..."), page by page in order, in a scratch folder.
#
#   run_commands.sh SOURCE_DIR FLOTILLA MPIRUN_FLAGS...
#
# Commands that build or test the project itself are run by the test suite's own way in (tests/run.sh, the quickstart test) and only have
# to name files and presets that exist.
set -euo pipefail
source_dir=$1 flotilla=$2
shift 2
mpirun_flags=("$@")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
ln -s "$source_dir/examples" "$source_dir/docs" "$source_dir/slurm" "$source_dir/tests" "$source_dir/CMakePresets.json" .
export PATH="$scratch/bin:$PATH"
mkdir bin
ln -s "$flotilla" bin/flotilla
real_mpirun=$(command -v mpirun)
printf '#!/bin/sh\nexec %s %s "$@"\n' "$real_mpirun" "${mpirun_flags[*]}" >bin/mpirun
chmod +x bin/mpirun
# Short runs: a page shows the command, the environment makes it end soon.
export FLOTILLA_TRAINING_STEPS=24 FLOTILLA_CHECKPOINT_EVERY=10 FLOTILLA_RUN_LOG_EVERY=10 FLOTILLA_PROBE_BUDGET=1s OMP_NUM_THREADS=1
for _ in 1 2 3; do cat "$source_dir"/docs/*.md "$source_dir"/docs/*/*.md; done >corpus.txt

commands_of() {
  awk '/^```console/ {inside = 1; next} /^```/ {inside = 0} inside && /^\$ / {sub(/^\$ /, ""); sub(/ +# .*$/, ""); print}' "$1"
}

passed=0 failed=0
while IFS= read -r page; do
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    case $line in
      examples/*.sh* | tests/*.sh*) check=(test -x "$source_dir/${line%% *}") ;;
      cmake\ --preset* | cmake\ --build\ --preset* | ctest\ --preset*)
        preset=$(sed 's/.*--preset \([a-z-]*\).*/\1/' <<<"$line")
        check=(grep -q "\"name\": \"$preset\"" "$source_dir/CMakePresets.json") ;;
      cmake\ --install*) check=(true) ;;
      *) check=(bash -c "$line") ;;
    esac
    if "${check[@]}" >out.txt 2>&1 </dev/null; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      echo "${page#"$source_dir"/}: this command fails: $line"
      tail -20 out.txt
    fi
  done < <(commands_of "$page")
done < <(find "$source_dir/README.md" "$source_dir/docs" -name '*.md' | sort)
echo "$passed commands of the documents ran, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
