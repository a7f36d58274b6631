#!/usr/bin/env bash
# `flotilla bench` as processes that believe to be nodes of a Slurm step: one that is not there, one that hangs, a disk without room, a bit that
# flipped. Nothing here is decided by how fast this machine is.
#
#   bench_processes.sh FLOTILLA
set -euo pipefail
flotilla=$1
# shellcheck source=tests/support/waiting.sh
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../support/waiting.sh"
scratch=$(mktemp -d)
hung=""
end() {
  [ -z "$hung" ] || kill -9 "$hung" 2>/dev/null || true
  rm -rf "$scratch"
}
trap end EXIT
cd "$scratch"
export FLOTILLA_BENCH_BUDGET=1s FLOTILLA_BENCH_DISK_SIZE=4MiB

as_node() { # RANK NODES STEP ARGUMENTS...
  local rank=$1 nodes=$2 step=$3
  shift 3
  env SLURM_JOB_ID=7 SLURM_JOB_PARTITION=cpu "SLURM_JOB_NODELIST=n[0-$((nodes - 1))]" "SLURM_STEP_ID=$step" "SLURM_STEP_NUM_NODES=$nodes" \
    "SLURM_PROCID=$rank" SLURM_LOCALID=0 "SLURMD_NODENAME=n$rank" "$flotilla" bench "$@"
}

failed=0
expect() { # WHAT EXPECTED_CODE CODE [WORDS...]
  local what=$1 expected=$2 code=$3 words
  shift 3
  if ! [[ " $expected " == *" $code "* ]]; then
    echo "$what: exit code $code, expected one of: $expected"
    cat out
    failed=1
  fi
  for words in "$@"; do
    grep -qF -- "$words" out || { echo "$what: no \"$words\" in:"; cat out; failed=1; }
  done
}
run() { code=0 && "$@" >out 2>&1 || code=$?; }

for option in -o --html --prometheus; do
  run "$flotilla" bench --folder alone $option none/x
  expect "a file in a folder that is not there, by $option" 66 "$code" "none: no such file or folder; expected the folder for none/x"
done
[ ! -e alone ] || { echo "something was measured for files that cannot be written"; failed=1; }

as_node 1 2 0 >other 2>&1 &
other=$!
run as_node 0 2 0 -o clean.json
wait "$other"
expect "two nodes" "0 1" "$code" "2 nodes"

run as_node 0 2 1 --bench.silence 2s
expect "a node that is not there" 77 "$code" "n1: drain" "it was never heard of" 'scontrol update NodeName=n1 State=DRAIN Reason="flotilla bench: no report'

FLOTILLA_BENCH_BUDGET=600s as_node 1 2 2 >other 2>&1 &
hung=$!
until_true [ -e flotilla-bench/7.2.0/nodes/n1.json ]
hung=$(pgrep -P "$hung" | head -1 || true)
[ -n "$hung" ] || hung=$!
kill -STOP "$hung"
run as_node 0 2 2 --bench.silence 3s
expect "a node that hangs" 77 "$code" "n1: drain" "it was last heard of at: hardware threads"
kill -9 "$hung"
hung=""

run as_node 0 1 3 --bench.disk-size 1000000TiB
expect "a full disk" 1 "$code" "n0: drain" "disk: only" "are free on the file system of"

# Reports of three nodes, of which one has another bit in its answer.
mkdir -p judged/nodes
python3 - clean.json judged/nodes <<'PYTHON'
import copy, json, sys
source, folder = sys.argv[1:]
node = json.load(open(source))["nodes"][0]
for core in node["cores"]:  # this machine may be busy
    core["step_seconds"] = 0.005
for n in range(3):
    report = copy.deepcopy(node)
    report["host"] = f"n{n}"
    if n == 1:
        name, digest = next(iter(report["answers"].items()))
        report["answers"][name] = f"{int(digest, 16) ^ 1:016x}"
    json.dump({"format": "flotilla-bench-node", "version": 1, "node": report}, open(f"{folder}/n{n}.json", "w"))
PYTHON
run "$flotilla" bench judged --quiet
expect "a flipped bit" 1 "$code" "n1: drain" "the training step" "where 2 nodes of"
run "$flotilla" bench judged --quiet -o flipped.json
sed 's/"n1"/"n9"/' flipped.json >renamed.json
run "$flotilla" bench --compare flipped.json renamed.json
expect "a node that is gone" 1 "$code" "n1: the node is not in the newer report"
run "$flotilla" bench --compare flipped.json flipped.json --quiet
expect "nothing changed" 0 "$code"
[ ! -s out ] || { echo "--quiet says:"; cat out; failed=1; }

# So many nodes, of which rank 0's alone is there: the others' reports are made of a clean one. One has another bit in its answer; one was
# heard of, and no more.
pretend_nodes() { # FOLDER NODES SILENT FLIPPED
  mkdir -p "$1/nodes"
  python3 - clean.json "$@" <<'PYTHON'
import copy, json, sys
source, folder, nodes, silent, flipped = sys.argv[1:]
node = json.load(open(source))["nodes"][0]
node["others_share"] = 0.01
for core in node["cores"]:
    core["step_seconds"] = 0.005
for n in range(1, int(nodes)):
    report = copy.deepcopy(node)
    report["host"] = f"n{n}"
    if n == int(flipped):
        name, digest = next(iter(report["answers"].items()))
        report["answers"][name] = f"{int(digest, 16) ^ 1:016x}"
    if n == int(silent):
        report["done"], report["doing"] = False, "memory bandwidth"
    json.dump({"format": "flotilla-bench-node", "version": 1, "node": report}, open(f"{folder}/nodes/n{n}.json", "w"))
PYTHON
}
began=$SECONDS
pretend_nodes flotilla-bench/7.4.0 64 9 5
run as_node 0 64 4 --bench.silence 3s
expect "64 nodes" 77 "$code" "n5: drain" "62 nodes" "n9: drain" "it was last heard of at: memory bandwidth" "64 nodes"
echo "64 nodes: verdicts after $((SECONDS - began)) s, with one test of 1 s and 3 s of silence"
pretend_nodes many 4097 0 4000
began=$SECONDS
run "$flotilla" bench many --quiet
expect "4,096 nodes" 1 "$code" "n4000: drain" "4095 nodes"
echo "4,096 nodes: judged in $((SECONDS - began)) s"
exit "$failed"
