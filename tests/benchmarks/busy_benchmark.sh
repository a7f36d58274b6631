#!/usr/bin/env bash
# Training with several threads beside other work: medians of a step alone and beside busy loops, in turns. For a machine that runs nothing
# else; issue 14 allows 3 times the quiet time with two threads beside two loops.
#
#   tests/benchmarks/busy_benchmark.sh                 build/ holds a Release build
#   THREADS=2 LOOPS=2 STEPS=40 ROUNDS=5 GOMP_SPINCOUNT=0 tests/benchmarks/busy_benchmark.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

threads=${THREADS:-2} loops=${LOOPS:-2} steps=${STEPS:-40} rounds=${ROUNDS:-5}
here=$(mktemp -d)
pids=()
end_loops() {
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  pids=()
}
trap 'end_loops; rm -rf "$here"' EXIT
cat README.md docs/*.md >"$here/text.txt"

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# Milliseconds of the median step; the first three warm up.
step() {
  rm -rf "$here/run"
  build/src/app/flotilla train --model.name gpt2-mini --data.train "$here/text.txt" --data.format text --training.length 128 \
    --training.global-batch 16 --training.steps "$steps" --training.warmup-steps 0 --plan.microbatch 4 --run.threads "$threads" \
    --run.directory "$here/run" --probe.file "$here/profile.json" --probe.fresh-for 1d >"$here/log" 2>&1 || { cat "$here/log" >&2; exit 1; }
  sed -n 's/.*"step_seconds": \([0-9.e-]*\).*/\1/p' "$here/run/metrics.jsonl" | tail -n +4 | median | awk '{print 1000 * $1}'
}

step >/dev/null # measures the profile that all rounds share
ratios=""
for round in $(seq "$rounds"); do
  quiet=$(step)
  for ((i = 0; i < loops; i++)); do
    while :; do :; done &
    pids+=($!)
  done
  busy=$(step)
  end_loops
  ratio=$(awk -v a="$quiet" -v b="$busy" 'BEGIN {printf "%.2f", b / a}')
  printf 'round %d  alone %.1f ms  beside %d busy loops %.1f ms  ratio %s\n' "$round" "$quiet" "$loops" "$busy" "$ratio"
  ratios="$ratios $ratio"
done
sorted=$(tr ' ' '\n' <<<"$ratios" | sed '/^$/d' | sort -g)
echo "$threads threads beside $loops busy loops: $(median <<<"$sorted") times the quiet time (median of $rounds; $(head -1 <<<"$sorted") to $(tail -1 <<<"$sorted"))"
