#!/usr/bin/env bash
# Runs every command that a ```console block of README.md and docs/ shows ("$ ..."), in one shell in a scratch folder: README.md first, whose
# exports hold for the other pages as they do for a reader, then page by page. Nothing is added to a command.
#
#   run_commands.sh SOURCE_DIR BINARY_DIR
#
# Commands that build or test the project itself are run by the test suite's own way in and only have to name files and presets that exist.
set -euo pipefail
source_dir=$1 binary_dir=$2
# shellcheck source=tests/docs/commands.sh
. "$(dirname "$0")/commands.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make_clone "$scratch" "$source_dir" "$binary_dir"
cd "$scratch"
# Short runs: a page shows the command, the environment makes it end soon. newcomer.sh runs README.md without.
export FLOTILLA_TRAINING_STEPS=24 FLOTILLA_CHECKPOINT_EVERY=10 FLOTILLA_RUN_LOG_EVERY=10 FLOTILLA_PROBE_BUDGET=1s FLOTILLA_BENCH_BUDGET=1s

names_what_is_there() { # COMMAND
  case $1 in
    cmake\ --preset* | cmake\ --build\ --preset* | ctest\ --preset*)
      grep -q "\"name\": \"$(sed 's/.*--preset \([a-z-]*\).*/\1/' <<<"$1")\"" CMakePresets.json ;;
    cmake\ --install*) true ;;
    *) test -x "${1%% *}" ;;
  esac
}

passed=0 failed=0
while IFS= read -r page; do
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    code=0
    if builds_or_tests "$line"; then
      names_what_is_there "$line" >out.txt 2>&1 || code=$?
    else
      eval "$line" >out.txt 2>&1 </dev/null || code=$?
    fi
    if [ "$code" -eq 0 ]; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      echo "${page#"$source_dir"/}: this command fails: $line"
      tail -20 out.txt
    fi
  done < <(commands_of "$page")
done < <(echo "$source_dir/README.md" && find "$source_dir/docs" -name '*.md' | LC_ALL=C sort)
echo "$passed commands of the documents ran, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
