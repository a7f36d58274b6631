#!/usr/bin/env bash
# flotilla submit, doctor and report on a real Slurm: CLUSTER_SH CLUSTER_FOLDER FLOTILLA SLURM_FOLDER
# Exit code 77, with the reason, where no cluster can run.
set -euo pipefail
cluster=$1 room=$2 flotilla=$3 library=$4/flotilla.sh
why=$("$cluster" check) || { echo "SKIPPED: $why" && exit 77; }
on() { "$cluster" "$room" on "$@"; }
work=$(mktemp -d "$room/submit-XXXXXX")
job=""
end() {
  [ -z "$job" ] || on head scancel "$job" 2>/dev/null || true
  on head scontrol update nodename=n1,n4 state=resume 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT
show_logs() { cat "$work"/*.log || true; }
# shellcheck source=tests/support/waiting.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/waiting.sh"

pending() { [ "$(on head squeue -h -j "$1" -o %t | sort -u)" = PD ]; }
gone() { [ -z "$(on head squeue -h -j "$1" -t PD,R)" ]; }

cd "$work"
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text.txt
cat >job.toml <<TOML
[model]
name = "gpt2-tiny"
[data]
train = ["text.txt"]
format = "text"
[training]
steps = 6
global-batch = 16
length = 16
[device]
memory = "256MiB"
[probe]
budget = "500ms"
[run]
directory = "run"
threads = 1
[submit]
partitions = ["a100", "v100"]
device-types = ["gpu:a100=V100-16", "gpu:v100=V100-16"]
library = "$library"
time = "10min"
[limit]
devices = 12
TOML

# The site is read, and what was recorded of it says the same again.
on head "$flotilla" submit job.toml --dry-run --submit.record recorded >dry.log 2>&1 || fail "submit --dry-run"
on head "$flotilla" submit job.toml --dry-run --submit.answers recorded >again.log 2>&1 || fail "submit of recorded answers"
sed -n '/^#!/,$p' dry.log >script.sh
sed -n '/^#!/,$p' again.log | cmp -s - script.sh || fail "recorded answers give another script"

# A job over both partitions: one world, done, and told.
on head "$flotilla" submit job.toml --format json -o sent.json 2>sent.log || fail "submit"
job=$(sed -n 's/.*"job": "\([0-9]*\)".*/\1/p' sent.json)
[ -n "$job" ] || fail "no job number in $(cat sent.json)"
test -x run -a -s run/submit.sh -a -s run/submission.json || fail "nothing is kept in the run directory"
wait_for grep -qs '"reason": "finished"' run/metrics.jsonl || { cp "flotilla-$job.log" job.log || true; fail "job $job does not end: $(on head squeue)"; }
"$flotilla" report run >report.log || fail "report"
grep -q "6 iterations, 1 incarnation" report.log || fail "the report tells something else"
grep -q "ended *0: finished" report.log || fail "the run did not finish"
grep -q "@ [av]100" report.log || fail "the report does not tell the partitions"

# doctor inside a job: one world; and tasks that cannot find each other.
on head srun --mpi=pmix -p a100 -N2 -n2 "$flotilla" doctor job.toml >doctor.log 2>&1 || fail "doctor on a healthy job"
grep -q "one world of 2 ranks on 2 hosts" doctor.log || fail "doctor sees no world of 2 hosts"
code=0
on head srun --mpi=none -p a100 -N2 -n2 "$flotilla" doctor job.toml >alone.log 2>&1 || code=$?
[ "$code" -eq 69 ] || fail "doctor of singletons ends with $code"
grep -q "srun --mpi=pmix -n 2" alone.log || fail "doctor does not say the line to write"

# train in a part of a heterogeneous job: refused, with the line to use instead, whichever launcher left the rest out.
cat >part.sh <<'SCRIPT'
#!/bin/bash
#SBATCH -p a100 -N1 --exclusive
#SBATCH hetjob
#SBATCH -p v100 -N1 --exclusive
mpirun --bind-to none -n 1 "$FLOTILLA" train job.toml --run.directory=part
echo "mpirun: $?"
srun --mpi=pmix -n 1 "$FLOTILLA" train job.toml --run.directory=part
echo "srun: $?"
SCRIPT
on head env FLOTILLA="$flotilla" sbatch --wait --output=part.log part.sh >/dev/null || fail "a heterogeneous job"
for launcher in mpirun srun; do grep -q "^$launcher: 64" part.log || fail "$launcher in a part of a heterogeneous job is not refused"; done
[ "$(grep -c "component 1 (v100) of this heterogeneous job has no rank.*srun --mpi=pmix --het-group=0-1" part.log)" = 2 ] || fail "the refusals do not say the line to use"

# Without the job scripts the run asks Slurm itself for the time that is left.
code=0
on head srun --mpi=pmix -p a100 -N1 -n1 --time=21 "$flotilla" train job.toml --run.directory=limit --training.steps=1000000 --run.stop-slack=1250s >limit.log 2>&1 || code=$?
[ "$code" -eq 75 ] || fail "a run near its time limit ends with $code"
grep -q "the job's time is nearly over: saved at step" limit.log || fail "the time limit was not seen"

# A pending job that cannot be filled is made smaller: n4 is drained, two of v100 were asked for.
on head scontrol update nodename=n4 state=drain reason=test
printf '#!/bin/bash\n#SBATCH -p a100 -N2 --gres=gpu:a100:4 --exclusive\n#SBATCH hetjob\n#SBATCH -p v100 -N2 --gres=gpu:v100:2 --exclusive\nsleep 100\n' >pending.sh
job=$(on head sbatch --parsable --output=/dev/null pending.sh)
wait_for pending "$job" || fail "job $job does not wait: $(on head squeue)"
on head "$flotilla" submit job.toml --resize "$job" >resize.log 2>&1 || fail "submit --resize"
grep -q "component 1 (v100).*NumNodes=1-1" resize.log || fail "component 1 ought to be made smaller"
running() { [ "$(on head squeue -h -j "$job" -o %t | sort -u)" = R ]; }
wait_for running || fail "the smaller job does not start: $(on head squeue)"
on head scancel "$job"

# Its first component cannot be resized: the job is sent anew, the old one taken back.
rm -r run
on head scontrol update nodename=n1 state=drain reason=test
old=$(on head sbatch --parsable --output=/dev/null pending.sh)
job=$old
wait_for pending "$old" || fail "job $old does not wait: $(on head squeue)"
on head "$flotilla" submit job.toml --resize "$old" --format json -o anew.json 2>anew.log || fail "submit --resize of the first component"
job=$(sed -n 's/.*"job": "\([0-9]*\)".*/\1/p' anew.json)
if [ -z "$job" ] || [ "$job" = "$old" ]; then fail "nothing was sent anew"; fi
wait_for gone "$old" || fail "the old job is there still"
wait_for grep -qs '"reason": "finished"' run/metrics.jsonl || fail "the job that was sent anew does not finish"
echo "submit, doctor, report and --resize did what they ought to"
