# shellcheck shell=bash
# What Flotilla's job scripts share. A job script sets the variables below, sources this file and calls
#
#   flotilla_job train job.toml [OPTIONS]
#
# which launches flotilla over all that the job has, and again for as long as the run can go on: on the nodes left after a lost one, from the
# queue after a warning. It ends the script with the exit code of docs/commands.md. docs/slurm.md explains all of it.
#
#   FLOTILLA             the program                                                           default: flotilla
#   FLOTILLA_RUN         run directory, on a file system that all nodes share; it must stay the same           (needed)
#   FLOTILLA_TASKS       ranks on a node; of component K of a heterogeneous job: FLOTILLA_TASKS_K              default: 1
#   FLOTILLA_SETUP_K     shell commands for the ranks of component K: 'module load cuda/12'                    default: none
#   FLOTILLA_SRUN        more options for srun, in one word each: (--cpu-bind=cores)           default: none
#   FLOTILLA_SIGNAL      what ranks are told to save and stop with: USR2, or TERM               default: USR2
#   FLOTILLA_ON_NO_PLAN  what to do when what is left cannot hold the model: stop, requeue, wait (held in the queue)   default: stop
#   FLOTILLA_REQUEUES    how often the job may go back to the queue                             default: 100
#   FLOTILLA_TRIES       launches in a row that may end without a new checkpoint                default: 3
#   FLOTILLA_LINKS       jobs of a chain that may follow (flotilla_chain)                       default: 20
#   FLOTILLA_RUN_GRACE   how long ranks live after TERM, with its unit: a longer step is given up     default: Slurm's KillWait
#   FLOTILLA_LOOK_EVERY  seconds between looks whether the step is still there while srun is                    default: 5
#   FLOTILLA_NOTICE_WITHIN seconds to wait for Slurm to see that a node of a heterogeneous job is lost     default: 900
#   FLOTILLA_DRAIN_EVERY seconds between looks for nodes that are being drained; 0: never       default: 60
#
# The shell understands: USR2 (of #SBATCH --signal=B:USR2@SECONDS): save, go back to the queue. USR1 (scancel --batch --signal=USR1 JOB): save,
# start again at once on the nodes that the job has now. TERM (preemption, scontrol requeue, scancel): the ranks have it too and save; what
# becomes of the job is Slurm's to say.

# bash 5.2 loses a trapped signal that comes while it takes a command substitution to pieces ("trap: unexpected EOF while looking for matching
# ')'"). So what runs while signals are awaited, flotilla_wait and what it calls, has none but in subshells, where the traps are not.
flotilla_say() {
  local now=$EPOCHREALTIME
  printf 'flotilla.sh: %(%F %T)T.%s: %s\n' "${now%[.,]*}" "${now: -6:3}" "$*"
}

flotilla_refuse() {
  echo "flotilla.sh: error: $*" >&2
  exit 64
}

flotilla_is_het() { [ "${SLURM_HET_SIZE:-0}" -gt 1 ]; }

# Checks what the job script has set. Everything that is used as a number is one.
flotilla_check() {
  local name value
  [ -n "${SLURM_JOB_ID-}" ] || flotilla_refuse "this is no Slurm job; start it with sbatch"
  [ -n "${FLOTILLA_RUN-}" ] || flotilla_refuse "set FLOTILLA_RUN to the run directory"
  : "${FLOTILLA:=flotilla}" "${FLOTILLA_TASKS:=1}" "${FLOTILLA_SIGNAL:=USR2}" "${FLOTILLA_ON_NO_PLAN:=stop}" "${FLOTILLA_REQUEUES:=100}" \
    "${FLOTILLA_TRIES:=3}" "${FLOTILLA_LINKS:=20}" "${FLOTILLA_DRAIN_EVERY:=60}" "${FLOTILLA_ANSWER_WITHIN:=10}" "${FLOTILLA_NOTICE_WITHIN:=900}" "${FLOTILLA_LOOK_EVERY:=5}"
  for name in FLOTILLA_LOOK_EVERY FLOTILLA_ANSWER_WITHIN FLOTILLA_NOTICE_WITHIN FLOTILLA_TASKS FLOTILLA_REQUEUES FLOTILLA_TRIES FLOTILLA_LINKS FLOTILLA_DRAIN_EVERY; do
    value=${!name}
    [[ $value =~ ^[0-9]{1,6}$ ]] || flotilla_refuse "$name is '$value'; expected a number"
  done
  case $FLOTILLA_SIGNAL in USR1 | USR2 | TERM) ;; *) flotilla_refuse "FLOTILLA_SIGNAL is '$FLOTILLA_SIGNAL'; expected USR1, USR2 or TERM" ;; esac
  case $FLOTILLA_ON_NO_PLAN in stop | requeue | wait) ;; *) flotilla_refuse "FLOTILLA_ON_NO_PLAN is '$FLOTILLA_ON_NO_PLAN'; expected stop, requeue or wait" ;; esac
  command -v "$FLOTILLA" >/dev/null || flotilla_refuse "'$FLOTILLA' is not there; set FLOTILLA to the program, or load its module"
}

# The names in a node list, one a line. Slurm's own tool knows its own lists.
flotilla_hosts() { scontrol show hostnames "$1"; }

# ---- what the run has said

flotilla_outcome() { # KEY: the number beside it in outcome.json; nothing where there is none
  sed -n 's/.*"'"$1"'": \([0-9]*\).*/\1/p' "$FLOTILLA_RUN/outcome.json" 2>/dev/null
}

flotilla_newest_step() { # of the committed checkpoints; 0 without one
  local manifest step newest=0
  for manifest in "$FLOTILLA_RUN"/step-*/manifest.json; do
    step=${manifest%/manifest.json}
    step=${step##*/step-}
    [[ $step =~ ^[0-9]+$ ]] && [ "$step" -gt "$newest" ] && newest=$step
  done
  echo "$newest"
}

# The exit code that the run has written down since; nothing where it has not.
flotilla_word() { # INCARNATION-BEFORE
  [ "$(flotilla_outcome incarnation)" = "$1" ] || flotilla_outcome exit_code
}

# The exit code that decides: the run's own word, else what the launcher's code means.
flotilla_verdict() { # LAUNCHER'S-CODE INCARNATION-BEFORE
  local code
  code=$(flotilla_word "$2")
  if [ -n "$code" ]; then
    echo "$code"
  else
    case $1 in
      64 | 65 | 69 | 70 | 75 | 76) echo "$1" ;; # said before the run directory was open
      *) echo 77 ;;                             # 137, 143: killed before it could speak; 1, and at times 0: srun could not start everything
    esac
  fi
}

# ---- what the job has

# Seconds until the time limit; nothing where there is none. Components share the earliest.
flotilla_seconds_left() {
  squeue -h -j "$SLURM_JOB_ID" -o %L 2>/dev/null | awk '
    /^[0-9:-]+$/ {
      days = 0; rest = $1
      if (split($1, d, "-") == 2) { days = d[1]; rest = d[2] }
      n = split(rest, t, ":"); s = 0
      for (i = 1; i <= n; i++) s = s * 60 + t[i]
      s += days * 86400
      if (least == "" || s < least) least = s
    }
    END { print least }'
}

# Seconds between TERM and KILL. GraceTime of a partition comes on top where a job is preempted, and nobody says why TERM has come.
flotilla_kill_wait() { scontrol show config 2>/dev/null | sed -n 's/^KillWait *= *\([0-9]\{1,6\}\) .*/\1/p'; }

# Of the nodes given, those that answer. A node that has just died is Slurm's for minutes yet.
flotilla_answering() { # SRUN-OPTION NODE...
  local option=$1 node
  shift
  for node in "$@"; do
    (timeout --kill-after=2 "$FLOTILLA_ANSWER_WITHIN" srun --overlap --mpi=none --gres=none "$option" -N1 -n1 -w "$node" true >/dev/null 2>&1 && echo "$node") &
  done
  wait
}

# A plain job may have lost nodes, or been given some, since it started; srun believes its environment.
flotilla_refresh() {
  local list
  list=$(squeue -h -j "$SLURM_JOB_ID" -o %N 2>/dev/null)
  if [ -z "$list" ] || [ "$list" = "${SLURM_JOB_NODELIST-}" ]; then return; fi
  export SLURM_JOB_NODELIST=$list SLURM_NODELIST=$list
  SLURM_JOB_NUM_NODES=$(flotilla_hosts "$list" | wc -l)
  export SLURM_JOB_NUM_NODES SLURM_NNODES=$SLURM_JOB_NUM_NODES
  unset SLURM_JOB_CPUS_PER_NODE
}

# A plain job's nodes, as Slurm has them now.
flotilla_nodes() { # all|answering
  local nodes
  mapfile -t nodes < <(flotilla_hosts "$(squeue -h -j "$SLURM_JOB_ID" -o %N)")
  if [ "$1" = all ]; then printf '%s\n' "${nodes[@]}"; else flotilla_answering --quiet "${nodes[@]}" | sort; fi
}

# Whether every node of a heterogeneous job answers.
flotilla_all_answer() {
  local k name nodes
  for ((k = 0; k < SLURM_HET_SIZE; k++)); do
    name=SLURM_JOB_NODELIST_HET_GROUP_$k
    mapfile -t nodes < <(flotilla_hosts "${!name}")
    [ "$(flotilla_answering "--het-group=$k" "${nodes[@]}" | wc -l)" = "${#nodes[@]}" ] || return 1
  done
}

flotilla_draining() {
  local list=${SLURM_JOB_NODELIST-} k name
  for ((k = 1; k < ${SLURM_HET_SIZE:-0}; k++)); do
    name=SLURM_JOB_NODELIST_HET_GROUP_$k
    list=$list,${!name}
  done
  sinfo -h -n "$list" -t drain -o %n 2>/dev/null | sort -u | tr '\n' ' '
}

# ---- one launch

# Runs in each rank of a heterogeneous job: a component without GPUs inherits the batch node's CUDA_VISIBLE_DEVICES, which names none of its own.
# shellcheck disable=SC2016
flotilla_in_rank='[ -n "${SLURM_STEP_GPUS-}" ] || unset CUDA_VISIBLE_DEVICES; eval "$0" && exec "$@"'

# Sets the array `launch`: srun and its options for one world over all components.
flotilla_het_launch() {
  local k nodes tasks setup
  launch=(srun)
  for ((k = 0; k < SLURM_HET_SIZE; k++)); do
    nodes=SLURM_JOB_NUM_NODES_HET_GROUP_$k
    tasks=FLOTILLA_TASKS_$k
    setup=FLOTILLA_SETUP_$k
    [ "$k" -eq 0 ] || launch+=(:)
    launch+=("--het-group=$k" --mpi=pmix --kill-on-bad-exit=1 "-N${!nodes}" "-n$((${!nodes} * ${!tasks:-$FLOTILLA_TASKS}))" "${FLOTILLA_SRUN[@]}"
      bash -c "$flotilla_in_rank" "${!setup:-true}" "$@")
  done
}

flotilla_plain_launch() { # NODES COMMAND...
  local nodes=$1 count
  shift
  count=$(wc -w <<<"$nodes")
  # --overlap: the step before may still hold its share while Slurm waits for its lost node
  launch=(srun --overlap --mpi=pmix --kill-on-bad-exit=1 "-N$count" "-n$((count * FLOTILLA_TASKS))" -w "$(tr ' ' ',' <<<"${nodes% }")" "${FLOTILLA_SRUN[@]}" "$@")
}

flotilla_running() { kill -0 "$1" 2>/dev/null; }

flotilla_has_steps() (
  steps=$(flotilla_steps)
  [ -n "$steps" ]
)

flotilla_has_ended() ( # INCARNATION-BEFORE: with a code other than 0
  code=$(flotilla_word "$1")
  [ "${code:-0}" != 0 ]
)

flotilla_tells_draining() (
  draining=$(flotilla_draining)
  [ -n "$draining" ] && flotilla_say "being drained: $draining"
)

flotilla_steps() { squeue -h -s -j "$SLURM_JOB_ID" -o %i | grep -v -e batch -e extern; }

flotilla_kill_steps() {
  local step
  for step in $(flotilla_steps); do scancel --signal=KILL "$step"; done
  kill -KILL "$1" 2>/dev/null
}

# Whether a step that was there is there no more while its srun still waits: seen where a killed rank took the others along.
flotilla_step_gone() { # sets the caller's had_step
  if flotilla_has_steps; then
    had_step=yes
  elif [ "$had_step" = yes ]; then
    had_step=gone # srun gets until the next look
  elif [ "$had_step" = gone ]; then
    return 0
  fi
  return 1
}

# Waits for the step; passes warnings on; ends a step that the run has given up but srun does not.
flotilla_wait() { # PID INCARNATION-BEFORE
  local told="" given_up="" looked=$SECONDS stepped=$SECONDS had_step=""
  while flotilla_running "$1"; do
    if [ -n "$flotilla_stop" ] && [ -z "$told" ]; then
      told=yes
      [ "$flotilla_stop" = slurm ] || kill -s "$FLOTILLA_SIGNAL" "$1" 2>/dev/null
    fi
    if [ -z "$given_up" ] && flotilla_has_ended "$2"; then given_up=$SECONDS; fi
    if [ -n "$given_up" ] && [ $((SECONDS - given_up)) -ge 5 ]; then
      flotilla_say "the run has ended but srun has not; ending its step"
      flotilla_kill_steps "$1"
      given_up=$((SECONDS + 60))
    fi
    if [ $((SECONDS - stepped)) -ge "$FLOTILLA_LOOK_EVERY" ]; then
      stepped=$SECONDS
      if flotilla_step_gone; then
        flotilla_say "the step has ended but srun has not; ending srun"
        kill -KILL "$1" 2>/dev/null
      fi
    fi
    if [ "$FLOTILLA_DRAIN_EVERY" -gt 0 ] && [ -z "$flotilla_stop" ] && [ $((SECONDS - looked)) -ge "$FLOTILLA_DRAIN_EVERY" ]; then
      looked=$SECONDS
      ! flotilla_tells_draining || flotilla_warned requeue "nodes are being drained"
    fi
    sleep "${FLOTILLA_POLL:-0.5}" &
    wait $! # a signal ends the wait
  done
}

flotilla_warned() { # requeue|relaunch|slurm WHY
  flotilla_say "$2: saving"
  flotilla_stop=$1
}

# Launches once; sets `code`.
flotilla_launch() {
  local before nodes="" launcher left
  before=$(flotilla_outcome incarnation)
  flotilla_stop=""
  if flotilla_is_het; then
    flotilla_het_launch "$FLOTILLA" "$@"
  else
    flotilla_refresh
    nodes=$(flotilla_nodes "$flotilla_which" | tr '\n' ' ')
    [ -n "${nodes// /}" ] || { code=77 && flotilla_say "no node of the job answers" && return; }
    flotilla_plain_launch "$nodes" "$FLOTILLA" "$@"
  fi
  # What sbatch was asked for is about the first allocation; -N and -n above are about this one.
  unset SLURM_NTASKS SLURM_NPROCS SLURM_TASKS_PER_NODE SLURM_NTASKS_PER_NODE "${!SLURM_NTASKS_PER_NODE_HET_GROUP_@}" "${!SLURM_NTASKS_HET_GROUP_@}"
  [ -z "${SLURM_CPUS_PER_TASK-}" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun takes it over from sbatch no more since 22.05
  if [ -z "${FLOTILLA_RUN_GRACE-}" ]; then
    left=$(flotilla_kill_wait)
    [ "${left:-0}" -eq 0 ] || export FLOTILLA_RUN_GRACE=${left}s
  fi
  left=$(flotilla_seconds_left)
  if [ -n "$left" ]; then export FLOTILLA_RUN_TIME_LIMIT=${left}s; fi
  flotilla_say "launching on ${nodes:-all components}${left:+, $left s left}"
  "${launch[@]}" &
  launcher=$!
  flotilla_wait "$launcher" "$before"
  wait "$launcher" 2>/dev/null # bash would report a killed one
  code=$(flotilla_verdict $? "$before")
}

# ---- what follows

# Counts launches in a row that left no new checkpoint, over requeues too.
flotilla_made_progress() {
  local step last=-1 tries=0
  step=$(flotilla_newest_step)
  [ ! -r "$FLOTILLA_RUN/launches" ] || read -r last tries <"$FLOTILLA_RUN/launches"
  if [ "$step" = "$last" ]; then tries=$((tries + 1)); else tries=1; fi
  echo "$step $tries" >"$FLOTILLA_RUN/launches"
  [ "$tries" -le "$FLOTILLA_TRIES" ]
}

flotilla_end() { # CODE WHY
  flotilla_say "$2; ending with $1"
  exit "$1"
}

# Waits until Slurm has seen by itself that a node is lost (SlurmdTimeout) and requeues the job, which ends this shell.
flotilla_await_requeue() {
  local i
  flotilla_say "a node does not answer: waiting for Slurm to notice and to requeue the job"
  flotilla_stop=""
  for ((i = 0; i < FLOTILLA_NOTICE_WITHIN; i++)); do
    [ -z "$flotilla_stop" ] || exit 75
    sleep 1 &
    wait $!
  done
}

# Back to the queue: the script is killed by it and started again when the job's turn comes.
flotilla_requeue() { # WHY [hold]
  local how=requeue i
  [ "${SLURM_RESTART_COUNT:-0}" -lt "$FLOTILLA_REQUEUES" ] || flotilla_end 75 "$1; already requeued ${SLURM_RESTART_COUNT} times (FLOTILLA_REQUEUES)"
  [ "${2-}" != hold ] || how=requeuehold
  flotilla_say "$1: back to the queue"
  trap 'flotilla_stop=requeued' TERM
  flotilla_stop=""
  # The requeue may end scontrol, which is part of the job, before it can say that it has worked.
  scontrol "$how" "$SLURM_JOB_ID" || [ $? -gt 128 ] || [ -n "$flotilla_stop" ] ||
    flotilla_end 75 "Slurm does not requeue this job (#SBATCH --requeue?)"
  for ((i = 0; i < 300; i++)); do # until Slurm ends this shell
    [ -z "$flotilla_stop" ] || exit 75
    sleep 1 &
    wait $!
  done
  exit 75
}

flotilla_lost() {
  flotilla_made_progress || flotilla_end 77 "$FLOTILLA_TRIES launches in a row ended without a new checkpoint"
  if flotilla_is_het; then
    # Requeued before Slurm knows of a dead node, Slurm 22.05 leaves that node's component behind and the job pends for ever.
    flotilla_all_answer || flotilla_await_requeue
    flotilla_requeue "a peer or node was lost"
  fi
  flotilla_which=answering
  flotilla_say "a peer or node was lost: starting again on the nodes left"
}

flotilla_no_plan() {
  case $FLOTILLA_ON_NO_PLAN in
    stop) flotilla_end 76 "no plan fits what the job has" ;;
    requeue) flotilla_requeue "no plan fits what the job has" ;;
    wait) flotilla_requeue "no plan fits what the job has; waiting for 'scontrol release $SLURM_JOB_ID'" hold ;;
  esac
}

flotilla_saved() {
  case $flotilla_stop in
    relaunch) flotilla_say "saved: starting again on what the job has now" ;;
    slurm) flotilla_end 75 "saved; Slurm decides what becomes of the job" ;;
    *)
      [ -z "${flotilla_chained-}" ] || flotilla_end 75 "saved; job $flotilla_chained goes on"
      flotilla_requeue "saved"
      ;;
  esac
}

# A chain of jobs for queues that do not requeue: the next one waits for this one's end, whatever that is, and is taken back when all is done.
# Options must stand in the script: what was on sbatch's command line is not known here.
flotilla_chain() {
  : "${FLOTILLA_LINKS:=20}"
  if [ "$FLOTILLA_LINKS" -eq 0 ]; then
    flotilla_say "the chain's last job (FLOTILLA_LINKS)"
    flotilla_chained=none
    return
  fi
  flotilla_chained=$(sbatch --parsable --dependency="afterany:$SLURM_JOB_ID" --export="ALL,FLOTILLA_LINKS=$((FLOTILLA_LINKS - 1))" "$0") ||
    flotilla_refuse "the next job of the chain could not be submitted"
  flotilla_chained=${flotilla_chained%%;*}
  # Only what starting again can mend is worth the next job.
  trap 'flotilla_unchain $?' EXIT
}

flotilla_unchain() { # CODE
  case $1 in
    75 | 77 | 137 | 143) ;;
    *) scancel "$flotilla_chained" ;;
  esac
  exit "$1"
}

flotilla_job() {
  local code launch
  flotilla_check
  mkdir -p "$FLOTILLA_RUN"
  flotilla_stop="" flotilla_which=all
  trap 'flotilla_warned requeue "warned by Slurm"' USR2
  trap 'flotilla_warned relaunch "asked to start again"' USR1
  trap 'flotilla_warned slurm "told to end"' TERM
  while :; do
    flotilla_launch "$@" "--run.directory=$FLOTILLA_RUN"
    case $code in
      0) flotilla_end 0 "done" ;;
      75) flotilla_saved ;;
      76) flotilla_no_plan ;;
      77)
        [ "$flotilla_stop" != slurm ] || flotilla_end 77 "ended by Slurm before it could save"
        [ -z "${flotilla_chained-}" ] || ! flotilla_is_het || flotilla_end 77 "a peer or node was lost"
        flotilla_lost
        ;;
      *) flotilla_end "$code" "starting again would not help" ;;
    esac
  done
}
