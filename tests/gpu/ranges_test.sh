#!/usr/bin/env bash
# Ranges of steps and instructions as a profiler sees them, played by a stand-in.
#   ranges_test.sh FLOTILLA STANDIN_PROFILER
set -euo pipefail
flotilla=$1 profiler=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "ranges_test: $*" >&2 && exit 1; }
for _ in $(seq 100); do echo "the quick brown fox jumps over the lazy dog"; done >text.txt
train() {
  "$flotilla" train --model.name gpt2-tiny --data.train text.txt --data.format text --training.length 16 --training.global-batch 2 \
    --training.steps 3 --device.memory 256MiB --probe.budget 200ms --run.threads 1 --run.directory "$1" >"$1.log" 2>&1 || fail "$(cat "$1.log")"
}

NVTX_INJECTION64_PATH=$profiler FLOTILLA_STANDIN_NVTX=$scratch/ranges train profiled
for step in 0 1 2; do grep -q " push step $step\$" ranges || fail "no range of step $step"; done
for name in attention_forward optimizer; do grep -q " push $name" ranges || fail "no range of $name in: $(sort -u ranges | head -50)"; done
# In each thread every range ends, and none before it began; instructions are inside of steps.
awk '$2 == "push" {if ($3 != "step" && depth[$1] == 0) outside++; depth[$1]++}
     $2 == "pop" {if (--depth[$1] < 0) bad++}
     END {for (thread in depth) if (depth[thread] != 0) bad++; exit bad + outside > 0}' ranges || fail "ranges do not nest"

NVTX_INJECTION64_PATH=$scratch/nothing.so train misled
grep -q "no names for the profiler of NVTX_INJECTION64_PATH: .*nothing.so" misled.log || fail "nobody says that the profiler is not there"
