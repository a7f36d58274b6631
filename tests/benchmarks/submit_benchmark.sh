#!/usr/bin/env bash
# How long `flotilla submit --dry-run` takes on a composed site: 10,000 nodes of five types, each in three partitions, a quarter of them in use in
# part, names and racks among their features, 60 reservations. Prints medians of processor and wall seconds, one line a program and job;
# of several programs the runs take turns.
#
#   tests/benchmarks/submit_benchmark.sh build/src/app/flotilla [OTHER_PROGRAM ...]
#   ROUNDS=9 NODES=10000 tests/benchmarks/submit_benchmark.sh PROGRAM
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: submit_benchmark.sh PROGRAM [OTHER_PROGRAM ...]" >&2; exit 64; }
rounds=${ROUNDS:-9} nodes=${NODES:-10000}
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=()
for program in "$@"; do programs+=("$(realpath "$program")"); done
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

cat >"$site/config.txt" <<'TXT'
Configuration data as of 2026-11-20T10:00:00
SLURM_VERSION           = 23.11.10
KillWait                = 30 sec
TXT
for partition in short long all; do
  echo "PartitionName=$partition AllowAccounts=ALL MaxTime=2-00:00:00 MaxNodes=UNLIMITED MinNodes=0 PriorityTier=1 OverSubscribe=NO" \
    "PreemptMode=OFF State=UP TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=16.0"
done >"$site/partitions.txt"
awk -v nodes="$nodes" -v site="$site" 'BEGIN {
  split("nvidia_h100_80gb_hbm3 nvidia_a100-sxm4-80gb tesla_v100-sxm2-32gb tesla_t4 l40s", type, " ")
  split("8 4 4 2 4", gpus, " "); split("128 64 40 32 64", cpus, " "); split("short long all", partition, " ")
  for (i = 0; i < nodes; ++i) {
    t = i % 5 + 1; name = sprintf("node%05d", i); g = gpus[t]; c = cpus[t]; r = i * 7 % 16
    state = r < 10 ? "idle" : r < 14 ? "mixed" : r < 15 ? "allocated" : "drained"
    used = state == "mixed" ? i % g : state == "allocated" ? g : 0; busy = used * int(c / g)
    features = sprintf("ib,rack%d,cell%d,%s", i / 32, i / 512, name); gres = sprintf("gpu:%s:%d(S:0-1)", type[t], g)
    printf "NodeName=%s CPUAlloc=%d CPUEfctv=%d CPUTot=%d ActiveFeatures=%s Gres=%s GresUsed=gpu:%s:%d(IDX:N/A) RealMemory=1031000 " \
      "OS=Linux 5.14.0 #1 SMP PREEMPT_DYNAMIC State=%s ThreadsPerCore=1 CfgTRES=cpu=%d,mem=1031000M,billing=%d,gres/gpu=%d\n",
      name, busy, c, c, features, gres, type[t], used, toupper(state), c, c, g >site "/nodes.txt"
    for (p = 1; p <= 3; ++p)
      printf "%s|%s|up|%s|%d|1031000|%s|%s|%d/%d/0/%d\n", name, partition[p], state, c, gres, features, busy, c - busy, c >site "/sinfo.txt"
  }
  for (k = 0; k < 60; ++k)
    printf "ReservationName=r%d StartTime=2026-11-21T10:00:00 EndTime=2026-12-23T10:00:00 Nodes=node[%05d-%05d] State=INACTIVE\n",
      k, k * 100, k * 100 + 180 >site "/reservations.txt"
}'

once() { # PROGRAM MODEL BATCH: processor and wall seconds
  local TIMEFORMAT='%U %S %R'
  { time "$1" submit --dry-run --model.name "$2" --training.precision bf16 --training.global-batch "$3" --submit.answers "$site" \
    --submit.library "$source_dir/slurm/flotilla.sh" >/dev/null 2>"$site/errors"; } 2>&1 | awk '{print $1 + $2, $3}'
}
median() { sort -g | awk '{all[NR] = $1} END {print all[int((NR + 1) / 2)]}'; }

for job in "gpt2 1024" "llama-3-8b 8192" "llama-3-70b 2048"; do
  read -r model batch <<<"$job"
  for ((round = 0; round < rounds; ++round)); do
    for i in "${!programs[@]}"; do once "${programs[i]}" "$model" "$batch" >>"$site/times.$i"; done
  done
  for i in "${!programs[@]}"; do
    echo "$model, batch $batch: $(cut -d' ' -f1 "$site/times.$i" | median) s of a processor, $(cut -d' ' -f2 "$site/times.$i" | median) s of wall time" \
      "(${programs[i]})"
    rm "$site/times.$i"
  done
done
