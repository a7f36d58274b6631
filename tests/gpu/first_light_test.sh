#!/usr/bin/env bash
# first_light.sh runs to its end on a stand-in device, and what it writes is whole.
#   first_light_test.sh SOURCE_DIR
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "first_light_test: $*" >&2 && exit 1; }

"$1/tests/gpu/first_light.sh" --tiny "$scratch" || fail "exit code $?"
page=$scratch/first_light.md
grep -q 'Checks against fp64: passed, [1-9][0-9]* comparisons' "$page" || fail "the page tells of no checks"
for kernel in rows_forward_bf16 adamw_bf16 head_gradient_bf16 attention_keys_64_bf16 product_down_bf16; do
  grep -qE "^\| \`$kernel\` \| [0-9.]+ \| [0-9.]+ \|" "$page" || fail "the page has no time of $kernel"
done
python3 - "$scratch/first_light.json" <<'PY' || fail "the JSON is not whole"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["checks"]["result"] == "passed" and report["checks"]["comparisons"] > 90, report["checks"]
assert report["speed"][0]["kernel"] == "rates" and report["speed"][0]["bf16"] > 0
assert all(line["seconds"] > 0 and line["floor_seconds"] > 0 for line in report["speed"][1:]), report["speed"]
assert set(report["sanitizers"]) == {"memcheck", "racecheck", "initcheck", "synccheck"}
PY

# A launch that fails is found, and a machine without a GPU is told so.
FLOTILLA_STANDIN_FAULTS=launch@3=719 "$1/tests/gpu/first_light.sh" --tiny "$scratch" >/dev/null 2>&1 && fail "a launch that failed is no finding"
FLOTILLA_STANDIN_DEVICES='' "$1/tests/gpu/first_light.sh" --tiny "$scratch" >/dev/null 2>"$scratch/said" && fail "it goes on without a GPU"
grep -q "no GPU here" "$scratch/said" || fail "without a GPU it says: $(cat "$scratch/said")"
