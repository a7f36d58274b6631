#!/usr/bin/env bash
# What it costs an even plan that any plan can be executed: the same two even plans (two replicas, two stages; gpt2-mini, two ranks) by this
# program and by the last one that could execute even plans alone, which is built from the history. In turns, in changing order, so that a
# machine that changes its speed changes both.
#
#   tests/benchmarks/routing_benchmark.sh [BUILD] [ROUNDS]     BUILD: the build folder, build by default; 5 rounds by default
#   BEFORE=PROGRAM tests/benchmarks/routing_benchmark.sh       a program of then that is built already
#   STEPS=60 LENGTH=64 BATCH=8 tests/benchmarks/routing_benchmark.sh
#
# Prints for each plan the ratio now / before of a step's median wall time and of its CPU time (of all ranks together, the difference between a
# long and a short run), round by round, and the median ratio with its range.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$here/../..
now=$(realpath "${1:-$repository/build}")/src/app/flotilla
rounds=${2:-5}
steps=${STEPS:-60} length=${LENGTH:-64} batch=${BATCH:-8}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

dir=$(mktemp -d)
finish() {
  if [ -d "$dir/tree" ]; then git -C "$repository" worktree remove --force "$dir/tree"; fi
  rm -rf "$dir"
}
trap finish EXIT

# The routes came with parcels.cpp; the commit before it knows none.
before=${BEFORE:-}
if [ -z "$before" ]; then
  routing=$(git -C "$repository" log --diff-filter=A --format=%H -- src/core/program/lower/boundary_messages.cpp | tail -1)
  git -C "$repository" worktree add --detach "$dir/tree" "$routing^" >/dev/null 2>&1
  echo "building $(git -C "$dir/tree" log -1 --format='%h %s')"
  (cd "$dir/tree" && cmake --preset cpu-release -DFLOTILLA_TESTS=OFF >/dev/null && cmake --build --preset cpu-release --target flotilla >/dev/null)
  before=$(find "$dir/tree" -path '*/src/app/flotilla' -type f -perm -u+x | head -1)
fi

head -c 300000 /dev/urandom | base64 -w 0 >"$dir/text.txt"
plan() { # STAGES: the JSON of the stages
  printf '{"format": "flotilla-plan", "version": 1, "model": "gpt2-mini", "length": %d, "global_batch": %d, "quantum": 1, "precision": "fp32", "stages": [%s]}\n' \
    "$length" "$batch" "$1"
}
half=$((batch / 2))
plan "{\"layers\": [0, 6], \"replicas\": [{\"devices\": [0], \"quanta\": 1, \"sequences\": $half}, {\"devices\": [1], \"quanta\": 1, \"sequences\": $half}]}" \
  >"$dir/replicas.json"
plan "{\"layers\": [0, 3], \"replicas\": [{\"devices\": [0], \"quanta\": 1, \"sequences\": $batch}]}, {\"layers\": [3, 6], \"replicas\": [{\"devices\": [1], \"quanta\": 1, \"sequences\": $batch}]}" \
  >"$dir/stages.json"

median() { sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2}'; }

# run PROGRAM PLAN STEPS NAME: CPU seconds of all ranks; the steps' wall times are in $dir/run.
run() {
  rm -rf "$dir/run"
  local TIMEFORMAT='%U %S'
  { time mpirun --oversubscribe --bind-to none -n 2 "$1" train --plan.file "$dir/$2.json" --model.name gpt2-mini --data.train "$dir/text.txt" \
    --data.format text --training.length "$length" --training.global-batch "$batch" --training.steps "$3" --training.precision fp32 \
    --run.threads 1 --checkpoint.keep 1 --run.directory "$dir/run" --probe.file "$dir/profile-$4.json" \
    >"$dir/log" 2>&1; } 2>"$dir/time" || { tail -5 "$dir/log" >&2; return 1; }
  awk '{print $1 + $2}' "$dir/time"
}

# measure PROGRAM PLAN NAME: "wall cpu" of a step.
measure() {
  local short long
  short=$(run "$1" "$2" 5 "$3") || return 1
  long=$(run "$1" "$2" "$steps" "$3") || return 1
  local wall
  wall=$(grep -o '"step_seconds": *[0-9.e-]*' "$dir/run/metrics.jsonl" | cut -d: -f2 | tail -n +4 | median)
  awk -v w="$wall" -v l="$long" -v s="$short" -v n="$steps" 'BEGIN {print w, (l - s) / (n - 5)}'
}

for plan in replicas stages; do
  : >"$dir/wall" && : >"$dir/cpu"
  for ((round = 1; round <= rounds; ++round)); do
    if ((round % 2)); then
      old=$(measure "$before" "$plan" old)
      new=$(measure "$now" "$plan" new)
    else
      new=$(measure "$now" "$plan" new)
      old=$(measure "$before" "$plan" old)
    fi
    echo "$old $new" | awk -v p="$plan" -v r="$round" -v wall="$dir/wall" -v cpu="$dir/cpu" '{
      printf "two %s, round %d   wall %.4f s before, %.4f s now: %.3f   CPU %.4f s before, %.4f s now: %.3f\n", p, r, $1, $3, $3 / $1, $2, $4, $4 / $2
      print $3 / $1 >>wall
      print $4 / $2 >>cpu
    }'
  done
  for kind in wall cpu; do
    sorted=$(sort -g "$dir/$kind")
    printf 'two %s: now / before, %s time: %.3f (median of %d; %.3f to %.3f)\n' "$plan" "$kind" "$(median <<<"$sorted")" "$rounds" \
      "$(head -1 <<<"$sorted")" "$(tail -1 <<<"$sorted")"
  done
done
