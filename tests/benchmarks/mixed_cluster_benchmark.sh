#!/usr/bin/env bash
# What a mixed cluster is worth: iterations a second of the plan that `flotilla train` finds for six unequal nodes, beside the best even plan
# over all of them, the best plan over the fast nodes alone, and the sum of what the nodes do alone. Needs root and Slurm: the nodes are
# tests/slurm/cluster.sh's, with CPUs in the ratio 4:4:2:2:1:1 and links inside and between switches in the ratio 10:1.
#
#   mixed_cluster_benchmark.sh [BUILD] [ROUNDS]       BUILD: the build folder, build by default, with its target all_tier; every run ROUNDS times (1), in turns
#   BATCH=N        sequences of a step (2800); with 280 sums over the slow links take longer than the compute
#   ZONES=one      all nodes in one zone; ZONES=switch (default): a node's switch is its zone, so that the probe measures what its nodes share
#
# Prints seconds of an iteration, forecast and measured (medians without the first two steps), and the ratios.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "${1:-$here/../../build}")
rounds=${2:-1}
model=gpt2-tiny length=64 batch=${BATCH:-2800} steps=5
cluster=$here/../slurm/cluster.sh
if why=$("$cluster" check 2>&1); then :; else
  echo "SKIPPED: $why"
  exit 0
fi
dir=$(mktemp -u /tmp/flotilla-mixed-XXXXXX)
trap '"$cluster" "$dir" down >/dev/null 2>&1 || true' EXIT
NODE_PERCENT="40 40 20 20 10 10" NODE_LINK=400mbit ZONE_UPLINK=40mbit "$cluster" "$dir" up >/dev/null
head -c 400000 /dev/urandom | base64 -w 0 >"$dir/text.txt"
cat >"$dir/zoned" <<'END'
#!/bin/sh
zones=$1
shift
case $zones/$SLURMD_NODENAME in
  switch/n1 | switch/n2) zone=za ;;
  switch/n3 | switch/n4) zone=zb ;;
  switch/*) zone=zc ;;
  *) zone=one ;;
esac
exec "$@" --run.zone "$zone"
END
chmod +x "$dir/zoned"

# run NAME NODES BATCH OPTION...: trains; the forecast and the measured seconds of an iteration go to NAME.times
run() {
  local name=$1 nodes=$2 batch=$3 count
  shift 3
  count=$(awk -F, '{print NF}' <<<"$nodes")
  rm -rf "${dir:?}/$name"
  "$cluster" "$dir" on head srun --mpi=pmix -p preemptible -w "$nodes" -N "$count" -n "$count" "$dir/zoned" "${ZONES:-switch}" \
    "$build/src/app/flotilla" train \
    --model.name "$model" --data.train "$dir/text.txt" --data.format text --training.length "$length" --training.global-batch "$batch" \
    --training.steps "$steps" --checkpoint.keep 1 --run.directory "$dir/$name" --run.threads 1 "$@" >"$dir/$name.log" 2>&1 || {
    tail -5 "$dir/$name.log" >&2
    return 1
  }
  awk '/^forecast/ {print}' "$dir/$name.log" | head -1 >>"$dir/$name.lines"
  seconds "$name" >>"$dir/$name.times"
}

# The median of the steps after the second.
seconds() {
  grep -o '"step_seconds": *[0-9.e-]*' "$dir/$1/metrics.jsonl" | cut -d: -f2 | tail -n +3 | sort -g |
    awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2}'
}

median() { sort -g "$1" | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2}'; }

# Every node trains for itself, all of them at the same time, as they are found alone: batches in the ratio of their CPUs, so that they end
# together. The nodes share one machine's cores and caches; what each does while the others compute, too, is what a mixed plan can have.
at_once() {
  local node running=()
  for node in n1 n2 n3 n4 n5 n6; do
    run "once-$node" "$node" "${at_once_batch[$node]}" --probe.file "$dir/profile-$node.json" &
    running+=($!)
  done
  for node in "${running[@]}"; do wait "$node"; done
}
declare -A at_once_batch=([n1]=1120 [n2]=1120 [n3]=560 [n4]=560 [n5]=280 [n6]=280)

all=n1,n2,n3,n4,n5,n6
even=("6 1 8" "3 2 8") # data, pipeline, microbatch
for ((round = 0; round < rounds; ++round)); do
  run mixed "$all" "$batch" --probe.file "$dir/profile-all.json"
  run fast n1,n2 "$batch" --probe.file "$dir/profile-fast.json"
  for i in "${!even[@]}"; do
    read -r data pipeline microbatch <<<"${even[i]}"
    "$build/tests/benchmarks/even_plan" "$model" "$length" "$batch" "$data" "$pipeline" "$microbatch" "$dir/even-$i.json"
    run "even-$i" "$all" "$batch" --probe.file "$dir/profile-all.json" --plan.file "$dir/even-$i.json"
  done
  for node in n1 n2 n3 n4 n5 n6; do run "alone-$node" "$node" 280 --probe.file "$dir/profile-$node.json"; done
  at_once
done

echo "$model, batch $batch of $length tokens, six nodes with CPUs 4:4:2:2:1:1, $rounds round(s)"
row() { printf '%-34s %9s   %s\n' "$1" "$(median "$dir/$2.times")" "$(head -1 "$dir/$2.lines" | cut -c1-110)"; }
printf '%-34s %9s\n' "" "s/iter"
row "mixed (found by flotilla train)" mixed
row "fast nodes alone" fast
best=
for i in "${!even[@]}"; do
  read -r data pipeline microbatch <<<"${even[i]}"
  row "even: data $data, pipeline $pipeline, mb $microbatch" "even-$i"
  now=$(median "$dir/even-$i.times")
  if [ -z "$best" ] || awk "BEGIN {exit !($now < $best)}"; then best=$now; fi
done
for node in n1 n3 n5; do row "$node alone, batch 280" "alone-$node"; done
for node in n1 n3 n5; do row "$node while all compute, batch ${at_once_batch[$node]}" "once-$node"; done
grep -h "^plan" "$dir/mixed.log" | head -1
mixed=$(median "$dir/mixed.times") fast=$(median "$dir/fast.times")
alone=0 once=0 # sequences a second of all nodes
for node in n1 n2 n3 n4 n5 n6; do
  alone=$(awk "BEGIN {print $alone + 280 / $(median "$dir/alone-$node.times")}")
  once=$(awk "BEGIN {print $once + ${at_once_batch[$node]} / $(median "$dir/once-$node.times")}")
done
awk -v m="$mixed" -v e="$best" -v f="$fast" -v b="$batch" -v alone="$alone" -v once="$once" 'BEGIN {
  printf "mixed / best even plan over all nodes  %.2f times as fast (aim 1.9)\n", e / m
  printf "mixed / fast nodes alone               %.2f times as fast (aim 1.3)\n", f / m
  printf "mixed / sum of the nodes, one by one   %.0f %% (aim 85)\n", 100 * b / m / alone
  printf "mixed / sum of the nodes, all at once  %.0f %%\n", 100 * b / m / once
}'
