#!/usr/bin/env bash
# flotilla bench on a real Slurm, as an administrator runs it: a clean run has no finding, and faults planted on its nodes are named, each
# with its node.
# Arguments: a folder for a cluster, FLOTILLA, the library that plants faults of nodes (tests/standin/node). BENCH_CLEAN_RUNS:
# clean runs before the faults, 1 by default; with more than one, all are made and findings are counted, and no fault is planted.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$1 flotilla=$2 standin=$3
cluster=("$here/cluster.sh" "$dir")
"$here/cluster.sh" check || exit $?
work=$dir/work
trap '"${cluster[@]}" down 2>/dev/null || true' EXIT

. "$here/../support/waiting.sh"
show_logs() { [ ! -e out.log ] || cat out.log; }
on() { "${cluster[@]}" on "$@"; }
# NODE MICROSECONDS: in which it has the 1.25 ms of a CPU that it has in 5000 us.
period() { echo "$2" >"/sys/fs/cgroup/cpu/flotilla-$(basename "$dir")/$1/cpu.cfs_period_us"; }

# NODE FAULTS: of the stand-in, in the node's process alone.
stand_in() { printf 'export LD_PRELOAD=%q FLOTILLA_STANDIN_NODE_FAULTS=%q\n' "$standin" "$2" >>"plant.$1"; }

# Each node's task: what is planted on it, then the program.
write_scripts() {
  cat >task <<'TASK'
#!/bin/bash
echo $$ >"pid.$SLURMD_NODENAME"
[ ! -e "plant.$SLURMD_NODENAME" ] || . "./plant.$SLURMD_NODENAME"
export FLOTILLA_PROBE_BUDGET=1s
exec "$FLOTILLA" bench --folder shared --budget 1s --bench.disk-size 4MiB -o report.json "$@"
TASK
  cat >job <<'JOB'
#!/bin/bash
#SBATCH --partition=preemptible --nodes=6 --exclusive --no-kill --no-requeue
srun --mpi=pmix --no-kill --kill-on-bad-exit=0 --ntasks-per-node=1 ./task "$@"
JOB
  chmod +x task
}

job="" began=0
start() { # ARGUMENTS of flotilla bench
  rm -rf out.log report.json shared pid.*
  began=$SECONDS
  job=$(on head env -C "$work" FLOTILLA="$flotilla" sbatch --parsable --output=out.log job "$@")
}
gone() { [ -z "$(on head squeue -h -j "$job")" ]; }
reported() { grep -qs 'held against' out.log; }
finish() { # once the first rank has reported; a task that hangs does not keep the job
  until_true reported
  echo "reported after $((SECONDS - began)) s"
  [ "${1-}" != hung ] || on head scancel "$job"
  until_true gone
}

# What the program says of the report again: HOST has a reason that this regular expression finds, and no other host has.
named() { # HOST GRADE EXPRESSION
  "$flotilla" bench report.json --format json >verdicts.json || true
  python3 - "$@" <<'PYTHON' || fail "not so: $*: $(head -c 3000 verdicts.json)"
import json, re, sys
host, grade, words = sys.argv[1:]
verdicts = json.load(open("verdicts.json"))["verdicts"]
said = {v["host"]: v["verdict"] for v in verdicts if any(re.search(words, r) for r in v["reasons"])}
sys.exit(0 if list(said) == [host] and grade in ("any", said[host]) else f"{words!r} is said of {said}")
PYTHON
  echo "named: $1: $3"
}

# The link of HOST alone is so slow that the node is to be drained.
slow_link() { # HOST
  "$flotilla" bench report.json --format json >verdicts.json || true
  python3 - "$@" <<'PYTHON' || fail "not so: slow link of $*: $(head -c 3000 verdicts.json)"
import json, sys
verdicts = json.load(open("verdicts.json"))["verdicts"]
said = {v["host"]: (v["verdict"], r) for v in verdicts for r in v["reasons"] if "its links move" in r}
print(f"named: slow links: {said}")
sys.exit(0 if [host for host, (verdict, reason) in said.items() if verdict == "drain"] == sys.argv[1:] else 1)
PYTHON
}

# Clean nodes of a busy machine: said to be busy, and nothing else.
clean() {
  "$flotilla" bench report.json --format json >verdicts.json || true
  python3 - <<'PYTHON' || fail "a clean run has findings"
import json, sys
verdicts = json.load(open("verdicts.json"))["verdicts"]
reasons = [(v["host"], r) for v in verdicts for r in v["reasons"]]
wrong = [r for r in reasons if not r[1].startswith("busy, its times are not judged")]
print(f"a clean run: {len(wrong)} findings, {len(reasons) - len(wrong)} busy nodes: {wrong}")
sys.exit(1 if wrong else 0)
PYTHON
}

NODE_LINK=300mbit ZONE_UPLINK=1gbit NODE_PERCENT="25 25 25 25 25 25" "${cluster[@]}" up
mkdir -p "$work"
cd "$work"
write_scripts

whole_run() {
  start --stages 0,1,2 --bench.silence 120s --profile card.json --profile-model gpt2-tiny
  finish
}

clean_runs=${BENCH_CLEAN_RUNS:-1}
if [ "$clean_runs" -gt 1 ]; then
  with_findings=0
  for run in $(seq "$clean_runs"); do
    whole_run
    (clean) || with_findings=$((with_findings + 1))
    echo "clean run $run of $clean_runs: $with_findings with findings"
  done
  exit "$((with_findings > 0))"
fi

# Other tests share this machine and its disk: what a second run does not find again was theirs.
whole_run
(clean) || { whole_run && clean; }
[ "$(grep -c 'sums are right' out.log)" -ge 1 ] || fail "no sums were proved"
"$flotilla" inspect card.json >card.log || fail "the profile cannot be read"
grep -q 'MPI of UCX' card.log || fail "the profile does not say what MPI makes of the network"

# A binding, a limit, a disk without room and another library, each on a node of its own.
echo 'taskset -pc 0 $$ >/dev/null' >plant.n1
echo 'ulimit -l 64' >plant.n2
mkdir -p full
on n3 mount -t tmpfs -o size=2m tmpfs "$work/full"
echo 'export ONEDNN_MAX_CPU_ISA=AVX2' >plant.n4
period n5 10000
start --disk "$work/full" --bench.silence 120s
finish
if [ "$(nproc)" -gt 1 ]; then named n1 any "usable threads: 1, where "; fi # on one core the others have no more
named n2 any "memlock: 64.0 KiB, where "
named n3 drain "disk: only"
computes() { "$flotilla" --version | grep '^compute'; }
if [ "$(computes)" != "$(ONEDNN_MAX_CPU_ISA=AVX2 computes)" ]; then
  named n4 any "software: "
else
  echo "another library was not tried: without AVX-512 oneDNN has no other code for this processor"
fi
named n5 any "cpu quota: 0.125, where "
on n3 umount "$work/full"
rm -f plant.*
period n5 5000

# A clock that is ahead, a disk, a core that are slow, a bit that flips, limits, little shared memory.
stand_in n1 clock=7
stand_in n2 disk=1
stand_in n3 core=1:4
stand_in n4 bit=20
echo 'ulimit -n 512; ulimit -s 1024' >plant.n5
on n6 mount -t tmpfs -o size=20m tmpfs /dev/shm
start --bench.silence 120s
finish
named n1 watch "its clock is [67]\b.* ahead" # a busy machine stamps its files late
named n2 drain "disk, write"
named n3 drain "hardware thread 1 takes "
named n4 drain "the training step \(fp32, "
named n5 any "open files: 512, where "
named n5 any "stack: 1.00 MiB, where "
named n6 any "/dev/shm: 20.0 MiB, where "
on n6 umount /dev/shm
rm -f plant.*

# Sums that come out wrong with one node; a file that comes back changed; a disk that cannot be written.
stand_in n4 sum=64
stand_in n2 spoil=1
mkdir -p full
on n3 mount -t tmpfs -o ro tmpfs "$work/full"
start --stages 0,2 --disk "$work/full" --bench.silence 120s
finish
named n4 drain "sums of known values come out wrong wherever it takes part"
named n2 drain "came back changed"
named n3 drain "Read-only file system"
on n3 umount "$work/full"
rm -f plant.*

# A process that hangs, and one that is killed.
echo 'export FLOTILLA_BENCH_BUDGET=600s' | tee plant.n6 >plant.n5
start
said() { compgen -G "shared/*/nodes/$1.json" >/dev/null; }
until_true said n6
until_true said n5
on n6 kill -STOP "$(cat pid.n6)"
on n5 kill -KILL "$(cat pid.n5)"
finish hung
both_lost() {
  "$flotilla" bench report.json --format json >verdicts.json || true
  python3 - <<'PYTHON' || fail "not so: two lost nodes: $(head -c 3000 verdicts.json)"
import json, sys
verdicts = json.load(open("verdicts.json"))["verdicts"]
said = {v["host"]: v["verdict"] for v in verdicts if any("no report; it was last heard of at: " in r for r in v["reasons"])}
sys.exit(0 if said == {"n5": "drain", "n6": "drain"} else f"lost: {said}")
PYTHON
  echo "named: n5, n6: killed and hung"
}
both_lost
rm -f plant.n5
grep -q "exit code 77" out.log || fail "a lost node does not end with 77"

# A link of a third of the rate, both ways. All are so slow that processes which wait for a core still fill them.
links() { for node in n1 n2 n3 n4 n5 n6; do "${cluster[@]}" link "$node" "$1"; done; }
links 60mbit
"${cluster[@]}" link n4 20mbit
start --stages 1
finish
slow_link n4
links 300mbit

# A link that loses every 50th packet. Open MPI may crash where connections over such a link fail: then there is no report, and once more.
lossy_run() {
  local attempt
  for attempt in 1 2 3; do
    start --stages 1
    until_true ended
    reported && finish && return
    echo "attempt $attempt ended without a report: $(grep -m 1 -o 'Segmentation fault.*\|did not come within.*' out.log || true)"
  done
  fail "no report over a link that loses packets"
}
ended() { reported || gone; }
if on n2 iptables -A INPUT -m statistic --mode random --probability 0.02 -j DROP 2>/dev/null; then
  # Chance drops them: on a busy machine a run may send too few to tell.
  lossy_run
  for attempt in 1 2; do
    if (fail() { exit 1; } && named n2 any "its links lose packets") >/dev/null; then break; fi
    echo "attempt $attempt did not name the link that loses packets"
    lossy_run
  done
  named n2 any "its links lose packets"
  on n2 iptables -F INPUT
else
  echo "not planted: packet loss; there is no iptables with its statistic here"
fi

# A node that dies.
echo 'export FLOTILLA_BENCH_BUDGET=600s' >plant.n5
rm plant.n6
start
until_true said n5
"${cluster[@]}" crash n5
finish hung
named n5 drain "no report; it was last heard of at: "
echo "flotilla bench named every planted fault"
