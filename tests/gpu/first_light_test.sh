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
for kernel in rows_forward_bf16 adamw_bf16 head_gradient_bf16 attention_keys_64_bf16 cudnn_attention_backward_bf16 product_down_bf16; do
  grep -qE "^\| \`$kernel\` \| [0-9.]+ \| [0-9.]+ \|" "$page" || fail "the page has no time of $kernel"
done
for collective in all_reduce reduce_scatter all_gather send_receive; do
  grep -qE "^\| \`$collective\` \| 2 \| 262144 \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \|" "$page" || fail "the page has no $collective of two GPUs"
done
grep -qE "^An abort took [0-9.e+-]+ s\.$" "$page" || fail "the page has no abort"
python3 - "$scratch/first_light.json" <<'PY' || fail "the JSON is not whole"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["checks"]["result"] == "passed" and report["checks"]["comparisons"] > 90, report["checks"]
assert report["speed"][0]["kernel"] == "rates" and report["speed"][0]["bf16"] > 0
assert report["speed"][0]["attention"] == "cuDNN 9.19.0", report["speed"][0]
assert all(line["seconds"] > 0 and line["floor_seconds"] > 0 for line in report["speed"][1:]), report["speed"]
rates = {line["group"]: line for line in report["groups"]}
assert abs(rates["all_reduce"]["bus_bandwidth"] / rates["all_reduce"]["algorithm_bandwidth"] - 1) < 1e-3, "2 (n - 1) / n of two"
assert abs(rates["all_gather"]["bus_bandwidth"] / rates["all_gather"]["algorithm_bandwidth"] - 0.5) < 1e-3, "(n - 1) / n of two"
assert rates["abort"]["done"]
assert set(report["sanitizers"]) == {"memcheck", "racecheck", "initcheck", "synccheck"}
PY

# A wrong sum is found, and what a machine without NCCL lacks is said.
build=$scratch/build/first_light
FLOTILLA_STANDIN_NCCL_FAULTS=wrong@1:1 "$build" groups tiny >/dev/null 2>"$scratch/said" && fail "a wrong sum is no finding"
grep -q "WRONG all_reduce" "$scratch/said" || fail "of a wrong sum it says: $(cat "$scratch/said")"
FLOTILLA_STANDIN_NCCL_VERSION=21805 "$build" groups tiny | grep -q '"why": "libnccl.so.2 is NCCL 2.18.5' || fail "it does not say that NCCL is too old"

# cuDNN that masks wrongly is not timed.
FLOTILLA_STANDIN_CUDNN=mask "$build" speed tiny >"$scratch/wrong.jsonl" || fail "a wrong cuDNN ends it"
grep -q '"attention": "cuDNN 9.19.0: the output is ' "$scratch/wrong.jsonl" || fail "of a wrong cuDNN it says: $(head -1 "$scratch/wrong.jsonl")"
grep -q cudnn_attention "$scratch/wrong.jsonl" && fail "a wrong cuDNN is timed"

# A launch that fails is found, and a machine without a GPU is told so.
FLOTILLA_STANDIN_FAULTS=launch@3=719 "$1/tests/gpu/first_light.sh" --tiny "$scratch" >/dev/null 2>&1 && fail "a launch that failed is no finding"
FLOTILLA_STANDIN_DEVICES='' "$1/tests/gpu/first_light.sh" --tiny "$scratch" >/dev/null 2>"$scratch/said" && fail "it goes on without a GPU"
grep -q "no GPU here" "$scratch/said" || fail "without a GPU it says: $(cat "$scratch/said")"
