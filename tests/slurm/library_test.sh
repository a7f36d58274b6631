#!/usr/bin/env bash
# What slurm/flotilla.sh decides, with Slurm's programs played by stubs: every exit code, warnings, caps, the commands that are sent.
# Arguments: the folder slurm/.
set -uo pipefail
scripts=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
failures=0

stub() { # NAME: with the body on standard input; every call is noted
  { echo '#!/bin/bash'; echo "echo \"$1 \$*\" >>'$work/calls'"; cat; } >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
stub scontrol <<'S'
if [ "$1 $2" = "show hostnames" ]; then tr ',' '\n' <<<"$3"; exit; fi
[ "$1 $2" != "show config" ] || { echo "KillWait                = ${KILL_WAIT:-30} sec"; [ -z "${BOOTED-}" ] || echo "BOOT_TIME               = $(date -d "$BOOTED" +%FT%T)"; exit; }
[ "$1 $2" != "show job" ] || { echo "   JobState=$([ -e "$WORK/run/requeued" ] && echo PENDING || echo "${JOB_STATE:-PENDING}") ReqNodeList=${REQUIRED:-(null)} ExcNodeList=${EXCLUDED:-(null)}"; exit; }
[ "$1" != ping ] || { [ -n "${AWAY-}" ] || echo "Slurmctld(primary) at head is UP"; exit; }
case $1 in requeue | requeuehold) [ -z "${AWAY-}" ] || { rm "$AWAY" 2>/dev/null && exit 1; }; [ -z "${NO_REQUEUE-}" ] || exit 1; touch "$WORK/run/requeued"; kill -TERM "$PPID" ;; esac
exit 0
S
stub squeue <<'S'
case "$*" in *%L*) echo "${LEFT:-1:00:00}" ;; *%N*) [ -z "${WARNED-}" ] || kill -s USR2 "$JOB_SHELL"; echo n1,n2 ;; *%i*) echo "${STEPS-}" ;; *%t*) tr ' ' '\n' <<<"${STATES-R}" ;; esac
S
stub sinfo <<'S'
case "$*" in *idle*) tr ' ' '\n' <<<"${USABLE:-n1 n2 n3 n4}" ;; esac
S
stub sbatch <<'S'
echo 99
S
stub scancel <<'S'
S
stub flotilla <<'S'
S
# Plays a launch: the next line of $work/plan is "LAUNCHER-CODE OUTCOME INCARNATION STEP"; "-" for no outcome.
stub srun <<'S'
if [ "${!#}" = here ]; then
  cat >/dev/null # srun reads what it is given
  case " ${SILENT-} " in " 1 ") ;; *" ${*: -3:1} "*) ;; *) echo here ;; esac
  exit 0
fi
[ "${!#}" != true ] || exit 0
echo "limit ${FLOTILLA_RUN_TIME_LIMIT-none} grace ${FLOTILLA_RUN_GRACE-none} nodes ${SLURM_JOB_NODELIST-none} ${SLURM_NNODES-none}" >>"$WORK/calls"
read -r code outcome incarnation step <"$WORK/plan"
sed -i 1d "$WORK/plan"
sleep "${LASTS:-0}"
if [ -n "${SAYS-}" ]; then echo "$SAYS" >&2; fi
# A rank that has opened the run directory has left its incarnation there.
[ "$incarnation$step" != -- ] || sleep "${LINGERS:-0}"
[ "$incarnation$step" = -- ] || { mkdir -p "$FLOTILLA_RUN/incarnations"; touch "$FLOTILLA_RUN/incarnations/$(($(ls "$FLOTILLA_RUN/incarnations" | wc -l) + 1)).json"; }
[ "$step" = - ] || { mkdir -p "$FLOTILLA_RUN/step-$step"; touch "$FLOTILLA_RUN/step-$step/manifest.json"; }
[ "$outcome" = - ] || echo "{\"incarnation\": $incarnation, \"exit_code\": $outcome, \"reason\": \"x\"${SAYS_MORE-}}" >"$FLOTILLA_RUN/outcome.json"
if [ -n "${SIGNAL_ME-}" ]; then trap 'echo "rank was told" >>"$WORK/calls"; exit 75' USR2; kill -s "$SIGNAL_ME" "$PPID"; lives=20; [ "$SIGNAL_ME" = TERM ] || lives=2000; for ((; lives > 0; lives--)); do sleep 0.05; done; fi
exit "$code"
S
export WORK=$work PATH=$work/bin:$PATH

# expect NAME CODE 'LAUNCHES' 'PATTERN in what was called or said' [VARIABLE=VALUE...]
expect() {
  local name=$1 code=$2 plan=$3 pattern=$4 got
  shift 4
  rm -rf "$work/run" "$work/calls"
  mkdir "$work/run"
  [ -z "${LAUNCHES-}" ] || echo "$LAUNCHES" >"$work/run/launches"
  [ -z "${BEFORE-}" ] || (cd "$work" && eval "$BEFORE")
  printf '%s\n' "$plan" >"$work/plan"
  # shellcheck disable=SC2016
  env FLOTILLA_POLL=0.05 FLOTILLA_PAUSE=0 FLOTILLA_SKIP_STEPS=0 SLURM_JOB_ID=7 FLOTILLA_RUN="$work/run" "$@" bash -c 'export JOB_SHELL=$$; . "$0/flotilla.sh"; [ -z "${CHAIN-}" ] || flotilla_chain; flotilla_job train job.toml' "$scripts" >"$work/said" 2>&1
  got=$?
  cat "$work/calls" >>"$work/said" 2>/dev/null
  if [ "$got" != "$code" ] || ! grep -qE -- "$pattern" "$work/said"; then
    echo "FAILED: $name: exit code $got, expected $code; expected to find: $pattern"
    cat "$work/said"
    failures=$((failures + 1))
  fi
}

expect "done" 0 "0 0 1 9" "ending with 0"
expect "a launch that has said nothing yet is left alone" 0 "0 0 1 9" "ending with 0" LASTS=7
if grep -q "ending its step" "$work/said"; then echo "FAILED: a launch that had said nothing was ended" && failures=$((failures + 1)); fi
expect "launches all nodes in one world" 0 "0 0 1 9" "^srun --overlap --mpi=pmix --kill-on-bad-exit=1 -N2 -n2 -w n1,n2 bash -c umask 077;" &&
  grep -qE "^.*exec .* flotilla train job.toml --run.directory=$work/run" "$work/said" || failures=$((failures + 1))
expect "several ranks on a node" 0 "0 0 1 9" "-N2 -n8" FLOTILLA_TASKS=4
expect "time limit is passed on" 0 "0 0 1 9" "^limit 90061s" LEFT=1-01:01:01
expect "how long TERM leaves is passed on" 0 "0 0 1 9" "grace 5s" KILL_WAIT=5
expect "what the environment says of it stays" 0 "0 0 1 9" "grace 90s" FLOTILLA_RUN_GRACE=90s
expect "srun is told of the nodes that the job has now" 0 "0 0 1 9" "nodes n1,n2 2$" SLURM_JOB_NODELIST=n1 SLURM_NNODES=1
expect "no time limit" 0 "0 0 1 9" "^limit none" LEFT=UNLIMITED
for code in 64 65 66 69 70; do expect "stops with $code" $code "$code $code 1 -" "starting again would not help"; done
for code in 64 65 66; do expect "stops with $code that only the launcher says" $code "$code - - -" "starting again would not help"; done
expect "an outcome of an earlier launch says nothing" 65 $'1 77 1 5\n65 - - -' "would not help"
expect "saved: requeue" 75 "75 75 1 5" "^scontrol requeue 7"
expect "saved, the cap is reached" 75 "75 75 1 5" "already requeued 3 times" SLURM_RESTART_COUNT=3 FLOTILLA_REQUEUES=3
expect "saved, one more is allowed" 75 "75 75 1 5" "^scontrol requeue 7" SLURM_RESTART_COUNT=2 FLOTILLA_REQUEUES=3
expect "Slurm refuses to requeue" 75 "75 75 1 5" "does not requeue this job" NO_REQUEUE=1
touch "$work/away"
expect "slurmctld is away: requeued when it is back" 75 "75 75 1 5" "slurmctld does not answer: asking again" AWAY="$work/away"
expect "no plan: stop" 76 "76 76 1 -" "no plan fits"
expect "warned before a launch: nothing is launched" 75 "0 0 1 9" "warned while nothing ran: back to the queue" WARNED=1
! grep -q "launching on" "$work/said" || { echo "FAILED: launched although warned" && failures=$((failures + 1)); }
expect "no plan for the nodes that answer: requeue" 75 $'77 77 1 5\n76 76 2 5' "no plan fits the nodes that answer: back to the queue" SILENT=n2
expect "no plan: requeue" 75 "76 76 1 -" "^scontrol requeue 7" FLOTILLA_ON_NO_PLAN=requeue
expect "no plan: wait" 75 "76 76 1 -" "^scontrol requeuehold 7" FLOTILLA_ON_NO_PLAN=wait
expect "lost peer: again on the nodes that answer" 0 $'137 - - 5\n0 0 2 9' "^srun --overlap .*-w n2 echo here"
expect "srun that starts nothing and says 0 has not finished the run" 0 $'0 - - 5\n0 0 2 9' "lost: starting again"
expect "lost peer by outcome" 0 $'1 77 1 5\n0 0 2 9' "lost: starting again"
expect "lost peer, nothing answers: elsewhere" 75 $'137 - - 5' "^scontrol requeue 7" SILENT=1 FLOTILLA_NOTICE_WITHIN=1 FLOTILLA_START_WITHIN=2 FLOTILLA_PAUSE=1
grep -qE "no answer from n1 n2 : [0-9]+ s of at most 1 s" "$work/said" || { echo "FAILED: it did not wait for Slurm to notice" && failures=$((failures + 1)); }
expect "nobody waits for Slurm to notice when the job's time is nearly over" 75 $'137 - - 5' "nearly over: requeueing anyway" SILENT=1 LEFT=59 FLOTILLA_START_WITHIN=2 FLOTILLA_PAUSE=1
expect "saved: no node is asked whether it lives" 75 "75 75 1 5" "^scontrol requeue 7" SILENT=1
! grep -q "no answer" "$work/said" || { echo "FAILED: nodes that have just saved were asked" && failures=$((failures + 1)); }
expect "the run's word counts more than the launcher's" 65 "137 65 1 -" "would not help"
expect "a killed srun: its step is told to save, then ended" 0 $'137 - - 5\n0 0 2 9' "^scancel --signal=USR2 7.0" STEPS=7.0 FLOTILLA_ANSWER_WITHIN=1
expect "no progress" 77 $'137 - - 5\n137 - 2 -\n137 - 3 -\n137 - 4 -' "3 launches in a row"
# No code from data: what stands in RUN/launches, or is said in the environment, is a number or nothing.
LAUNCHES="x[\$(touch $work/executed)] 2" expect "a launches file that is no numbers" 0 $'137 - - 5\n0 0 2 9' "lost: starting again"
LAUNCHES="5 x[\$(touch $work/executed)]" expect "a count of launches that is none" 0 $'137 - - 5\n0 0 2 9' "lost: starting again"
# What others may have planted in the run directory is not followed, not waited for and not overwritten.
echo precious >"$work/precious"
BEFORE='ln -s ../precious run/launches' expect "launches that is a link" 0 $'137 - - 5\n0 0 2 9' "lost: starting again"
[ "$(cat "$work/precious")" = precious ] && [ ! -L "$work/run/launches" ] || { echo "FAILED: a link was written through" && failures=$((failures + 1)); }
BEFORE='ln -s ../precious run/outcome.json' expect "an outcome that is a link says nothing" 65 "65 - - -" "would not help"
BEFORE='mkfifo run/launches' expect "launches that is a pipe" 0 $'137 - - 5\n0 0 2 9' "lost: starting again"
BEFORE='mkfifo run/outcome.json' expect "an outcome that is a pipe" 65 "65 - - -" "would not help"
BEFORE='mkdir -p run/launches/x' expect "launches are counted where they cannot be written down" 77 $'137 - - 5\n137 - 2 -\n137 - 3 -\n137 - 4 -' "3 launches in a row"
grep -q "launches cannot be written" "$work/said" || { echo "FAILED: it is not said that launches cannot be written" && failures=$((failures + 1)); }
BEFORE='chmod 777 run' expect "a run directory that everybody may write into" 65 "" "everybody may write into"
[ "$EUID" -ne 0 ] || BEFORE='chown 12345 run' expect "a run directory of another user" 65 "" "belongs to another user"

# Open MPI's session folders are where nobody else can make them first.
private_folder() ( # TMPDIR
  . "$scripts/flotilla.sh"
  TMPDIR=$1 SLURM_JOB_ID=7 bash -c "$flotilla_in_plain_rank" bash -c 'echo "$OMPI_MCA_orte_tmpdir_base $(stat -c "%a %u" "$OMPI_MCA_orte_tmpdir_base") $(umask)"'
)
mkdir "$work/tmp" "$work/elsewhere"
[ "$(private_folder "$work/tmp")" = "$work/tmp/flotilla-$EUID-7 700 $EUID 0077" ] || { echo "FAILED: no private session folder" && failures=$((failures + 1)); }
rmdir "$work/tmp/flotilla-$EUID-7" && ln -s ../elsewhere "$work/tmp/flotilla-$EUID-7"
case $(private_folder "$work/tmp") in "$work/tmp/flotilla-$EUID-7."????????" 700 $EUID 0077") ;; *) echo "FAILED: a planted session folder was taken" && failures=$((failures + 1)) ;; esac

for name in FLOTILLA_TASKS FLOTILLA_TASKS_0 FLOTILLA_TRIES SLURM_RESTART_COUNT SLURM_JOB_NUM_NODES_HET_GROUP_0; do
  # shellcheck disable=SC2016
  expect "$name that would be executed" 64 "" "$name is 'a" SLURM_HET_SIZE=1 "$name"='a[$(touch '"$work"'/executed)]'
done
# shellcheck disable=SC2016
expect "a chain's number that would be executed" 64 "" "FLOTILLA_LINKS is" CHAIN=1 FLOTILLA_LINKS='a[$(touch '"$work"'/executed)]'
[ ! -e "$work/executed" ] || { echo "FAILED: data was executed" && failures=$((failures + 1)); }
# Launches that no rank comes out of.
expect "a launch that did not start is tried again" 0 $'1 - - -\n0 0 1 9' "no rank has started: going on in 0 s"
expect "without the node that srun names" 0 $'1 - - -\n1 - - -\n0 0 1 9' "^srun --overlap --mpi=pmix --kill-on-bad-exit=1 -N1 -n1 -w n1 bash -c " SAYS="srun: error: Task launch for StepId=7.0 failed on node n2: Duplicate job id"
expect "a step's number is skipped after a failed launch" 0 $'1 - - -\n0 0 1 9' "^srun --overlap --mpi=none --gres=none --quiet -N1 -n1 true" FLOTILLA_SKIP_STEPS=1
expect "and after a requeue" 0 "0 0 1 9" "^srun --overlap --mpi=none --gres=none --quiet -N1 -n1 true" FLOTILLA_SKIP_STEPS=1 SLURM_RESTART_COUNT=1
expect "one failed launch is no reason to leave a node out" 0 $'1 - - -\n0 0 1 9' "the launch failed on n2: going on" SAYS="srun: error: Task launch for StepId=7.0 failed on node n2: Duplicate job id"
! grep -q -- "-w n1 bash -c " "$work/said" || { echo "FAILED: a node was left out for one failed launch" && failures=$((failures + 1)); }
expect "without the node that the run accuses again" 0 $'77 77 1 -\n77 77 2 -\n0 0 3 9' "^srun --overlap --mpi=pmix --kill-on-bad-exit=1 -N1 -n1 -w n1 bash -c " SAYS_MORE=', "said": "rank 1 on n2 has been silent for 10 s"'
expect "once is no reason to leave a node out" 0 $'77 77 1 -\n0 0 3 9' "lost: starting again on the nodes left" SAYS_MORE=', "said": "rank 1 on n2 has been silent for 10 s"'
! grep -q "leaving out" "$work/said" || { echo "FAILED: a node was left out for one loss" && failures=$((failures + 1)); }
expect "a node that is not the job's is not believed" 0 $'1 - - -\n0 0 1 9' "no rank has started: going on" SAYS='srun: error: Task launch for StepId=7.0 failed on node n9;touch: x'
expect "the task's number tells the node that srun does not name" 0 $'1 - - -\n1 - - -\n0 0 1 9' "-N1 -n1 -w n1 bash -c " SAYS=$'srun: error: task 1 launch failed: Unspecified error\nsrun: error: n1: task 0: Killed'
expect "with two ranks on a node, too" 0 $'1 - - -\n1 - - -\n0 0 1 9' "-N1 -n2 -w n2 bash -c " FLOTILLA_TASKS=2 SAYS=$'srun: error: task 1 launch failed: Unspecified error\nsrun: error: n2: tasks 2-3: Killed'
expect "all nodes named: all are tried again" 0 $'1 - - -\n0 0 1 9' "the launch failed on n1 n2" SAYS=$'srun: error: n1: task 0: Killed\nsrun: error: n2: task 1: Killed'
expect "launches that go on failing: elsewhere" 75 $'1 - - -' "^scontrol update jobid=7 excnodelist=n2$" FLOTILLA_START_WITHIN=0 SLURM_JOB_PARTITION=p SLURM_JOB_NUM_NODES=2 SAYS="srun: error: Node failure on n2"
expect "what was left out stays left out" 75 $'1 - - -' "excnodelist=n7,n2$" EXCLUDED=n7 FLOTILLA_START_WITHIN=0 SLURM_JOB_PARTITION=p SLURM_JOB_NUM_NODES=2 SAYS="srun: error: Node failure on n2"
expect "a job that names its nodes: none is left out" 75 $'1 - - -' "job 7 names its nodes .n1,n2.: none is left out" REQUIRED=n1,n2 FLOTILLA_START_WITHIN=0 SLURM_JOB_PARTITION=p SLURM_JOB_NUM_NODES=2 SAYS="srun: error: Node failure on n2"
expect "no other nodes: none is left out" 75 $'1 - - -' "partition p has no other nodes for these: n2" USABLE="n1 n2" FLOTILLA_START_WITHIN=0 SLURM_JOB_PARTITION=p SLURM_JOB_NUM_NODES=2 SAYS="srun: error: Node failure on n2"
expect "the only other node has been left out before" 75 $'1 - - -' "partition p has no other nodes for these: n2" EXCLUDED=n3 USABLE="n1 n2 n3" FLOTILLA_START_WITHIN=0 SLURM_JOB_PARTITION=p SLURM_JOB_NUM_NODES=2 SAYS="srun: error: Node failure on n2"
! grep -q excnodelist "$work/said" || { echo "FAILED: a job that could never start again" && failures=$((failures + 1)); }
expect "het: elsewhere, by component" 75 $'1 - - -' "^scontrol update jobid=8 excnodelist=n3$" FLOTILLA_START_WITHIN=0 SLURM_HET_SIZE=2 SLURM_JOB_ID_HET_GROUP_0=7 SLURM_JOB_ID_HET_GROUP_1=8 SLURM_JOB_PARTITION_HET_GROUP_0=a SLURM_JOB_PARTITION_HET_GROUP_1=b SLURM_JOB_NUM_NODES_HET_GROUP_0=2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1 SLURM_JOB_NODELIST_HET_GROUP_0=n1,n2 SLURM_JOB_NODELIST_HET_GROUP_1=n3 SAYS="srun: error: Task launch for StepId=7.0 failed on node n3: Unspecified error"
expect "an srun that goes on after a failed launch is ended" 0 $'1 - - -\n0 0 1 9' "the launch has failed, but srun goes on; ending its step" LINGERS=30 SAYS="srun: error: task 0 launch failed: Unspecified error"
expect "a launch that hangs is ended" 75 $'0 - - -' "no rank has opened the run directory in 1 s; ending this launch" LASTS=30 FLOTILLA_START_WITHIN=1 FLOTILLA_LOOK_EVERY=1
expect "a slow launch says what it waits for" 0 "0 0 1 9" "[0-9]+ s after the launch: Slurm has not started its step" LASTS=6 FLOTILLA_TELL_AFTER=3 FLOTILLA_LOOK_EVERY=1
expect "a slow launch whose step is there" 0 "0 0 1 9" "[0-9]+ s after the launch: its step is there, and no rank has opened the run" LASTS=9 FLOTILLA_TELL_AFTER=3 FLOTILLA_LOOK_EVERY=1 STEPS=7.0
if [ "$(grep -c "s after the launch" "$work/said")" -lt 2 ]; then echo "FAILED: it should say so again and again: every 3 s of 9" && failures=$((failures + 1)); fi
# A run directory that is full or away.
expect "no room: again when there is room" 0 $'69 69 1 -\n0 0 2 9' "the run directory is full or away: going on in 0 s" SAYS_MORE=', "temporary": true'
expect "no room for long: the queue" 75 "69 69 1 -" "^scontrol requeue 7" SAYS_MORE=', "temporary": true' FLOTILLA_START_WITHIN=0
expect "no room: the cap holds" 75 "69 69 1 -" "already requeued 3 times" SAYS_MORE=', "temporary": true' SLURM_RESTART_COUNT=3 FLOTILLA_REQUEUES=3 FLOTILLA_START_WITHIN=0
expect "no room: a chain goes on" 75 "69 69 1 -" "job 99 goes on" SAYS_MORE=', "temporary": true' CHAIN=1 FLOTILLA_START_WITHIN=0
expect "something else is missing" 69 "69 69 1 -" "would not help" SAYS_MORE=', "temporary": false'
expect "het: one world, a component each" 0 "0 0 1 9" "srun --het-group=0 .*-N2 -n4 .* : --het-group=1 .*-N1 -n1 " SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1 FLOTILLA_TASKS_0=2
expect "het: a setup of its own" 0 "0 0 1 9" "load cuda" SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1 "FLOTILLA_SETUP_1=module load cuda"
expect "het: a silent node means waiting for Slurm" 75 "137 - - 5" "no answer from n2 : [0-9]+ s of at most 1 s" SILENT=n2 FLOTILLA_NOTICE_WITHIN=1 SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1 SLURM_JOB_NODELIST_HET_GROUP_0=n1,n2 SLURM_JOB_NODELIST_HET_GROUP_1=n3
expect "het: a lost peer means requeue" 75 "137 - - 5" "^scontrol requeue 7" SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1
expect "USR2: ranks are told, then requeue" 75 "75 75 1 5" "rank was told" SIGNAL_ME=USR2
expect "USR2: requeue" 75 "75 75 1 5" "^scontrol requeue 7" SIGNAL_ME=USR2
expect "het: Slurm has requeued a part" 75 "75 75 1 5" "^scontrol requeue 7" SIGNAL_ME=TERM STATES="PD PD R" SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1
for states in "R R R" "CG CG CG" "PD PD PD"; do
  expect "het: Slurm has dealt with all of it ($states)" 75 "75 75 1 5" "Slurm decides" SIGNAL_ME=TERM STATES="$states" SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=2 SLURM_JOB_NUM_NODES_HET_GROUP_1=1
  ! grep -q "scontrol requeue" "$work/said" || { echo "FAILED: requeued what Slurm has ended" && failures=$((failures + 1)); }
done
expect "TERM: Slurm decides" 75 "75 75 1 5" "Slurm decides" SIGNAL_ME=TERM
# A slurmctld that crashes before it has written a requeue down knows nothing of it when it is back.
expect "TERM, of a requeue that is forgotten" 75 "75 75 1 5" "^scontrol requeue 7" SIGNAL_ME=TERM JOB_STATE=RUNNING BOOTED="1 minute"
for others in "JOB_STATE=RUNNING BOOTED=yesterday" "JOB_STATE=CANCELLED BOOTED=tomorrow" "JOB_STATE=RUNNING"; do
  # shellcheck disable=SC2086 # a word each
  expect "TERM, of another origin ($others)" 75 "75 75 1 5" "Slurm decides" SIGNAL_ME=TERM $others
  if grep -q "^scontrol requeue" "$work/said"; then echo "FAILED: requeued although Slurm knew ($others)" && failures=$((failures + 1)); fi
done
expect "chain: the next job waits" 75 "75 75 1 5" "sbatch --parsable --dependency=afterany:7 --export=ALL,FLOTILLA_LINKS=19" CHAIN=1
expect "chain: taken back when done" 0 "0 0 1 5" "^scancel 99" CHAIN=1
expect "chain: taken back when hopeless" 65 "65 65 1 5" "^scancel 99" CHAIN=1
expect "chain: its last job" 75 "75 75 1 5" "last job" CHAIN=1 FLOTILLA_LINKS=0
expect "hostile number" 64 "" "FLOTILLA_TASKS is" 'FLOTILLA_TASKS=1; rm -rf x'
expect "unknown signal" 64 "" "FLOTILLA_SIGNAL is" FLOTILLA_SIGNAL=KILL
expect "no job" 64 "" "start it with sbatch" SLURM_JOB_ID=
expect "no program" 64 "" "is not there" FLOTILLA=flotilla-nowhere
# Signals that come in the midst of a command substitution are lost (flotilla_say in flotilla.sh).
for function in flotilla_wait flotilla_has_begun flotilla_step_gone flotilla_warned flotilla_say; do
  # shellcheck disable=SC2016
  ! sed -n "/^$function()/,/^}/p" "$scripts/flotilla.sh" | grep -qE '\$\([^(]|`' || { echo "FAILED: a command substitution in $function"; failures=$((failures + 1)); }
done
grep -rqE -- "--comment" "$scripts"/*.sh && { echo "FAILED: --comment is touched"; failures=$((failures + 1)); }
[ "$failures" -eq 0 ]
