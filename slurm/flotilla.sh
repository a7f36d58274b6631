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
#   FLOTILLA_START_WITHIN seconds within which a launch must have opened the run directory, and for which launches that fail before that are
#                        repeated here; then the job goes back to the queue, without the nodes that failed     default: 240
#   FLOTILLA_LINKS       jobs of a chain that may follow (flotilla_chain)                       default: 20
#   FLOTILLA_RUN_GRACE   how long ranks live after TERM, with its unit: a longer step is given up     default: Slurm's KillWait
#   FLOTILLA_ANSWER_WITHIN seconds that nodes get to answer, and the ranks of a killed srun to save         default: 10
#   FLOTILLA_SKIP_STEPS  numbers of steps to skip at most after a requeue or a failed launch; 0: none                       default: 24
#   FLOTILLA_TELL_AFTER  seconds after a launch, and then after twice as many each time, to say what it waits for    default: 10
#   FLOTILLA_LOOK_EVERY  seconds between looks whether the step is still there while srun is                    default: 5
#   FLOTILLA_NOTICE_WITHIN seconds to wait, before a requeue, for Slurm to see that a silent node is lost  default: 900
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

# Whether all of it is a whole number that the shell can hold, in base 10. In arithmetic anything else would be a name to look up, or a
# subscript to execute.
flotilla_is_number() { [[ $1 =~ ^(0|[1-9][0-9]{0,14})$ ]]; }

flotilla_require_numbers() { # NAME...: of variables, those that are set
  local name
  for name in "$@"; do
    [ -z "${!name-}" ] || flotilla_is_number "${!name}" || flotilla_refuse "$name is '${!name//[![:print:]]/?}'; expected a number"
  done
}

# Checks what the job script has set. Everything that is used as a number is one.
flotilla_check() {
  [ -n "${SLURM_JOB_ID-}" ] || flotilla_refuse "this is no Slurm job; start it with sbatch"
  [ -n "${FLOTILLA_RUN-}" ] || flotilla_refuse "set FLOTILLA_RUN to the run directory"
  case $FLOTILLA_RUN in /*) ;; *) FLOTILLA_RUN=$PWD/$FLOTILLA_RUN ;; esac # a name such as -p is no option then
  : "${FLOTILLA:=flotilla}" "${FLOTILLA_TASKS:=1}" "${FLOTILLA_SIGNAL:=USR2}" "${FLOTILLA_ON_NO_PLAN:=stop}" "${FLOTILLA_REQUEUES:=100}" \
    "${FLOTILLA_TRIES:=3}" "${FLOTILLA_LINKS:=20}" "${FLOTILLA_DRAIN_EVERY:=60}" "${FLOTILLA_ANSWER_WITHIN:=10}" "${FLOTILLA_NOTICE_WITHIN:=900}" "${FLOTILLA_LOOK_EVERY:=5}" "${FLOTILLA_TELL_AFTER:=10}" "${FLOTILLA_SKIP_STEPS:=24}" "${FLOTILLA_START_WITHIN:=240}" "${FLOTILLA_PAUSE:=5}"
  flotilla_require_numbers FLOTILLA_LOOK_EVERY FLOTILLA_TELL_AFTER FLOTILLA_SKIP_STEPS FLOTILLA_ANSWER_WITHIN FLOTILLA_NOTICE_WITHIN FLOTILLA_START_WITHIN FLOTILLA_PAUSE FLOTILLA_REQUEUES \
    FLOTILLA_TRIES FLOTILLA_LINKS FLOTILLA_DRAIN_EVERY "${!FLOTILLA_TASKS@}" SLURM_JOB_ID SLURM_HET_SIZE SLURM_RESTART_COUNT \
    "${!SLURM_JOB_NUM_NODES_HET_GROUP_@}"
  case $FLOTILLA_SIGNAL in USR1 | USR2 | TERM) ;; *) flotilla_refuse "FLOTILLA_SIGNAL is '$FLOTILLA_SIGNAL'; expected USR1, USR2 or TERM" ;; esac
  case $FLOTILLA_ON_NO_PLAN in stop | requeue | wait) ;; *) flotilla_refuse "FLOTILLA_ON_NO_PLAN is '$FLOTILLA_ON_NO_PLAN'; expected stop, requeue or wait" ;; esac
  command -v "$FLOTILLA" >/dev/null || flotilla_refuse "'$FLOTILLA' is not there; set FLOTILLA to the program, or load its module"
}

# The names in a node list, one a line. Slurm's own tool knows its own lists.
flotilla_hosts() { scontrol show hostnames "$1"; }

# ---- what the run has said

# Everything that is read from the run directory is read by this: the first MiB of a regular file. A link is not followed, a pipe not waited for.
flotilla_read() { # NAME
  [ ! -f "$FLOTILLA_RUN/$1" ] || dd if="$FLOTILLA_RUN/$1" iflag=nofollow,nonblock bs=1M count=1 status=none 2>/dev/null
}

# Everything that is written there, by this: a new file in the place of what has that name, so that a link or a pipe is replaced, not written to.
flotilla_write() ( # NAME TEXT
  umask 077
  new=$(mktemp "$FLOTILLA_RUN/$1.XXXXXXXX.own" 2>/dev/null) || exit 1
  trap 'rm -f -- "$new"' EXIT
  echo "$2" 2>/dev/null >"$new" && mv -fT -- "$new" "$FLOTILLA_RUN/$1" 2>/dev/null
)

# The run directory is this user's, and nobody else may write into it or put another in its place: whoever may, says what becomes of the job.
# On the way to it a folder into which everybody may write is root's, or this user's with the sticky bit (as make_own_folder() of the program).
flotilla_own_run() {
  local at
  mkdir -p -- "$FLOTILLA_RUN" || flotilla_end 69 "$FLOTILLA_RUN cannot be made"
  [ -O "$FLOTILLA_RUN" ] || flotilla_end 65 "$FLOTILLA_RUN belongs to another user; set FLOTILLA_RUN to a folder of your own"
  at=$(realpath -- "$FLOTILLA_RUN") || flotilla_end 69 "$FLOTILLA_RUN cannot be examined"
  [ -z "$(find "$at" -maxdepth 0 -perm -o+w)" ] || flotilla_end 65 "everybody may write into $FLOTILLA_RUN; chmod o-w"
  while [ "$at" != / ]; do
    at=$(dirname -- "$at")
    [ -z "$(find "$at" -maxdepth 0 -perm -o+w ! -uid 0 ! \( -uid "$EUID" -perm -1000 \))" ] || [ "$(stat -c %u "$at")" = "$(stat -c %u /)" ] ||
      flotilla_end 65 "everybody may write into $at, on the way to $FLOTILLA_RUN; chmod o-w"
  done
}

flotilla_outcome() { # KEY: the number beside it in outcome.json; nothing where there is none
  flotilla_read outcome.json | LC_ALL=C sed -n 's/.*"'"$1"'": \([0-9]*\).*/\1/p'
}

flotilla_newest_step() { # of the committed checkpoints; 0 without one
  local manifest step newest=0
  for manifest in "$FLOTILLA_RUN"/step-*/manifest.json; do
    step=${manifest%/manifest.json}
    step=${step##*/step-}
    flotilla_is_number "$step" && [ "$step" -gt "$newest" ] && newest=$step
  done
  echo "$newest"
}

# Whether the run has said since that the run directory was full or away.
flotilla_lacked_room() { # INCARNATION-BEFORE
  [ "$(flotilla_outcome incarnation)" != "$1" ] && flotilla_read outcome.json | LC_ALL=C grep -a '"temporary": true' >/dev/null
}

# Whether something can be written there now, and reaches the disk.
flotilla_has_room() (
  probe=$(mktemp "$FLOTILLA_RUN/room.XXXXXXXX.own" 2>/dev/null) || exit 1
  trap 'rm -f -- "$probe"' EXIT
  head -c 1048576 /dev/zero 2>/dev/null >"$probe" && sync "$probe" 2>/dev/null
)

# Whether 69 means that: the run says so, or it could not even say anything.
flotilla_needs_room() {
  if [ -n "$(flotilla_word "$before")" ]; then flotilla_lacked_room "$before"; else ! flotilla_has_room; fi
}

# Sets flotilla_newest to the number of the run's newest incarnation; 0 without one. Without a command substitution: flotilla_wait calls it.
flotilla_find_incarnation() {
  local file number
  flotilla_newest=0
  for file in "$FLOTILLA_RUN"/incarnations/*.json; do
    number=${file##*/}
    number=${number%.json}
    if flotilla_is_number "$number" && [ "$number" -gt "$flotilla_newest" ]; then flotilla_newest=$number; fi
  done
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
      64 | 65 | 66 | 69 | 70 | 75 | 76) echo "$1" ;; # said before the run directory was open
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

# Of the nodes given, those that run a step. A node that has just died is Slurm's for minutes yet; and srun may start nothing and say 0. It
# must not read our input: it takes all there is.
flotilla_answering() { # SRUN-OPTION NODE...
  local option=$1 node
  shift
  for node in "$@"; do
    (timeout --kill-after=2 "$FLOTILLA_ANSWER_WITHIN" srun --overlap --mpi=none --gres=none "$option" -N1 -n1 -w "$node" echo here </dev/null 2>/dev/null | grep -qx here && echo "$node") &
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
  local list nodes
  list=$(squeue -h -j "$SLURM_JOB_ID" -o %N 2>/dev/null)
  mapfile -t nodes < <(flotilla_hosts "${list:-$SLURM_JOB_NODELIST}")
  if [ "$1" = all ]; then printf '%s\n' "${nodes[@]}"; else flotilla_answering --quiet "${nodes[@]}" | sort; fi
}

flotilla_silent_of() { # SRUN-OPTION NODE...
  local answering
  answering=$(flotilla_answering "$@")
  shift
  printf '%s\n' "$@" | grep -vxF -e "$answering"
}

# The nodes that Slurm counts as the job's and that do not answer, one a line.
flotilla_silent() {
  local k name nodes
  if ! flotilla_is_het; then
    mapfile -t nodes < <(flotilla_nodes all)
    flotilla_silent_of --quiet "${nodes[@]}"
    return
  fi
  for ((k = 0; k < SLURM_HET_SIZE; k++)); do
    name=SLURM_JOB_NODELIST_HET_GROUP_$k
    mapfile -t nodes < <(flotilla_hosts "${!name}")
    flotilla_silent_of "--het-group=$k" "${nodes[@]}"
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

# Runs in each rank. Open MPI's session folders of the job on a node lie in a folder that nobody else can enter: in a shared one, whoever makes
# them first says what is deleted with them. Where somebody has taken its name, each rank has one of its own. TMPDIR stays: jobs may keep
# checkpoints there.
# shellcheck disable=SC2016
flotilla_private='umask 077; if [ -z "${OMPI_MCA_orte_tmpdir_base-}" ]; then d=${TMPDIR:-/tmp}/flotilla-$EUID-$SLURM_JOB_ID; mkdir -m 700 -- "$d" 2>/dev/null; { [ -d "$d" ] && [ ! -L "$d" ] && [ -O "$d" ]; } || d=$(mktemp -d "$d.XXXXXXXX") || exit 69; export OMPI_MCA_orte_tmpdir_base=$d; unset d; fi; '
# shellcheck disable=SC2016
flotilla_in_plain_rank=$flotilla_private'exec "$0" "$@"'
# And of a heterogeneous job: a component without GPUs inherits the batch node's CUDA_VISIBLE_DEVICES, which names none of its own.
# shellcheck disable=SC2016
flotilla_in_rank=$flotilla_private'[ -n "${SLURM_STEP_GPUS-}" ] || unset CUDA_VISIBLE_DEVICES; eval "$0" && exec "$@"'

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
  launch=(srun --overlap --mpi=pmix --kill-on-bad-exit=1 "-N$count" "-n$((count * FLOTILLA_TASKS))" -w "$(tr ' ' ',' <<<"${nodes% }")" "${FLOTILLA_SRUN[@]}"
    bash -c "$flotilla_in_plain_rank" "$@")
}

# Passes on at once what srun and the ranks say, and keeps srun's lines that may name a node: sed outlives signals that are meant for others.
# (mawk, which is Debian's awk, reads whole blocks.)
flotilla_hear() { # FILE
  trap '' TERM USR1 USR2 INT HUP
  LC_ALL=C exec sed -u -E "/^(srun|slurmstepd): error: .{0,380}$/w $1" >&2 # in UTF-8 this pattern takes sed 0.7 s of CPU time
}

# The nodes that srun's words say a launch failed on, one a line: "Task launch for StepId=7.0 failed on node n2: Duplicate job id",
# "Node failure on n2", "task 1 launch failed: Unspecified error" (what PMIx cannot start, with the node left out: the task's number tells it).
# Of words on single tasks ("n2: task 3: Exited") only where nothing else was said. Names are looked for among the nodes given, which are those
# of the launch in Slurm's order.
flotilla_blamed() { # FILE TASKS-ON-A-NODE(0: they differ) NODE...
  local file=$1 tasks=$2
  shift 2
  awk -v tasks="$tasks" 'NR == FNR { known[$0] = 1; node[NR - 1] = $0; next }
    function blame(name) { gsub(/[:,;.]+$/, "", name); if (name in known) { print name; said = 1 } }
    match($0, /failed on node [^ ]+/) { blame(substr($0, RSTART + 15, RLENGTH - 15)) }
    match($0, /[Nn]ode failure on [^ ]+/) { blame(substr($0, RSTART + 16, RLENGTH - 16)) }
    /^srun: error: task [0-9]+ launch failed/ { said = 1; if (tasks > 0) blame(node[int($4 / tasks)]) }
    /^srun: error: [^ ]+: tasks? / { split($3, word, ":"); maybe[word[1]] = 1 }
    END { if (!said) for (name in maybe) if (name in known) print name }' <(printf '%s\n' "$@") "$file" | sort -u
}

# The nodes that the run's last word accuses, one a line: "rank 3 on n2 has been silent for 10 s". Names are looked for among the job's own.
flotilla_accused() { # INCARNATION-BEFORE NODE...
  local before=$1
  shift
  [ -n "$(flotilla_word "$before")" ] || return 0
  flotilla_read outcome.json | LC_ALL=C grep -aoE 'rank [0-9]{1,9} on [A-Za-z0-9_.-]+' | awk '{ print $4 }' | sort -u | grep -xF -e "$(printf '%s\n' "$@")"
}

# Every node of the job, one a line.
flotilla_all_nodes() {
  local k name
  if flotilla_is_het; then
    for ((k = 0; k < SLURM_HET_SIZE; k++)); do
      name=SLURM_JOB_NODELIST_HET_GROUP_$k
      flotilla_hosts "${!name}"
    done
  else
    flotilla_nodes all
  fi
}

flotilla_running() { kill -0 "$1" 2>/dev/null; }

# Where slurmctld does not answer, a step is taken to be there still.
flotilla_has_steps() (
  steps=$(flotilla_steps) || exit 0
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

# The job's steps but the script's own, one a line; fails where slurmctld does not answer.
flotilla_steps() {
  local steps
  steps=$(squeue -h -s -j "$SLURM_JOB_ID" -o %i 2>/dev/null) || return 1
  grep -v -e batch -e extern <<<"$steps" || true
}

flotilla_kill_steps() {
  local step
  for step in $(flotilla_steps); do scancel --signal=KILL "$step"; done
  kill -KILL "$1" 2>/dev/null
}

# Ends what a killed srun has left behind: ranks that train on, hold the run directory, and are heard by nobody. They may save first.
flotilla_end_orphans() { # INCARNATION-BEFORE
  local step i
  [ -z "$(flotilla_word "$1")" ] && flotilla_has_steps || return 0
  flotilla_say "a step is left without its srun: ending it"
  for step in $(flotilla_steps); do scancel --signal="$FLOTILLA_SIGNAL" "$step"; done
  for ((i = 0; i < 2 * FLOTILLA_ANSWER_WITHIN; i++)); do
    flotilla_has_steps || return 0
    sleep 0.5 &
    wait $!
  done
  flotilla_kill_steps "$launcher"
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

# Whether this launch's ranks have opened the run directory: what follows is the run's own affair.
flotilla_has_begun() {
  flotilla_find_incarnation
  [ "$flotilla_newest" -gt "$flotilla_begun_before" ]
}

# What a launch that takes its time waits for.
flotilla_tell_waiting() ( # SECONDS
  what="Slurm has not started its step"
  if flotilla_has_steps; then what="its step is there, and no rank has opened the run directory"; fi
  flotilla_say "$1 s after the launch: $what"
)

# Whether srun says that it could not start the step. Over several components it takes 20 s to end then.
flotilla_launch_failed() { [ -s "$flotilla_words" ] && grep -qE 'launch (failed|for .* failed)' "$flotilla_words"; }

# Waits for the step; passes warnings on; ends a step that the run has given up but srun does not.
flotilla_wait() { # PID INCARNATION-BEFORE
  local told="" given_up="" why="" looked=$SECONDS stepped=$SECONDS launched=$SECONDS begun="" had_step="" tell_after=$FLOTILLA_TELL_AFTER
  while flotilla_running "$1"; do
    if [ -z "$begun" ] && flotilla_has_begun; then begun=yes; fi
    # Before that it would kill the ranks.
    if [ -n "$flotilla_stop" ] && [ -n "$begun" ] && [ -z "$told" ]; then
      told=yes
      if [ "$flotilla_stop" = slurm ]; then flotilla_take_along; else kill -s "$FLOTILLA_SIGNAL" "$1" 2>/dev/null; fi
    fi
    if [ -z "$given_up" ] && flotilla_has_ended "$2"; then given_up=$SECONDS why="the run has ended"; fi
    if [ -z "$given_up$begun" ] && flotilla_launch_failed; then given_up=$SECONDS why="the launch has failed"; fi
    if [ -n "$given_up" ] && [ $((SECONDS - given_up)) -ge 5 ]; then
      flotilla_say "$why, but srun goes on; ending its step"
      flotilla_kill_steps "$1"
      given_up=$((SECONDS + 60))
    fi
    if [ $((SECONDS - stepped)) -ge "$FLOTILLA_LOOK_EVERY" ]; then
      stepped=$SECONDS
      if flotilla_step_gone; then
        flotilla_say "the step has ended but srun has not; ending srun"
        kill -KILL "$1" 2>/dev/null
      fi
      if [ -z "$begun" ] && [ $((SECONDS - launched)) -ge "$tell_after" ]; then
        flotilla_tell_waiting "$((SECONDS - launched))"
        tell_after=$((2 * tell_after))
      fi
      if [ -z "$begun" ] && [ $((SECONDS - launched)) -ge "$FLOTILLA_START_WITHIN" ]; then
        flotilla_say "no rank has opened the run directory in $((SECONDS - launched)) s; ending this launch"
        flotilla_kill_steps "$1"
        launched=$SECONDS
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
  [ "$1" != slurm ] || flotilla_told=$EPOCHSECONDS
}

# Nodes on which two launches in a row have failed, which is no chance: what a killed slurmstepd leaves is in the way of one step alone.
flotilla_bad_nodes() (
  for node in "${!flotilla_bad[@]}"; do [ "${flotilla_bad[$node]}" -lt 2 ] || echo "$node"; done
)

# Of the nodes given, those that are not bad; all of them where that would leave none.
flotilla_without_bad() { # NODE...
  local node kept=()
  for node in "$@"; do [ "${flotilla_bad[$node]-0}" -ge 2 ] || kept+=("$node"); done
  if [ ${#kept[@]} -gt 0 ]; then echo "${kept[*]}"; else echo "$*"; fi
}

# What a killed slurmstepd leaves in slurmd's folder (PMIx's socket) is in the way of every later step of its number on that node, and numbers
# begin at 0 again when the job is requeued. Steps without PMIx use some up: how many is left to chance, for nobody knows which are free.
flotilla_skip_steps() (
  option=--quiet
  ! flotilla_is_het || option=--het-group=0
  [ "$FLOTILLA_SKIP_STEPS" -gt 0 ] || exit 0
  for ((i = 1 + RANDOM % FLOTILLA_SKIP_STEPS; i > 0; i--)); do
    timeout --kill-after=2 "$FLOTILLA_ANSWER_WITHIN" srun --overlap --mpi=none --gres=none "$option" -N1 -n1 true </dev/null >/dev/null 2>&1 &
  done
  wait
)

# Launches once; sets `code` and what flotilla_job has beside it.
flotilla_launch() {
  local nodes="" launcher hearer words left
  before=$(flotilla_outcome incarnation)
  flotilla_find_incarnation
  flotilla_begun_before=$flotilla_newest
  : >"$flotilla_words"
  flotilla_stop=${flotilla_stop#relaunch} # in one command: between two, another signal may come
  if flotilla_is_het; then
    flotilla_het_launch "$FLOTILLA" "$@"
  else
    flotilla_refresh
    # shellcheck disable=SC2046 # a word each
    nodes=$(flotilla_without_bad $(flotilla_nodes "$flotilla_which"))
    [ -n "${nodes// /}" ] || { code=77 && flotilla_say "no node of the job answers" && return; }
    flotilla_plain_launch "$nodes" "$FLOTILLA" "$@"
  fi
  flotilla_heed_warnings
  flotilla_launched_on=$nodes
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
  exec {words}> >(flotilla_hear "$flotilla_words")
  hearer=$!
  "${launch[@]}" 2>&"$words" &
  launcher=$!
  exec {words}>&-
  flotilla_wait "$launcher" "$before"
  wait "$launcher" 2>/dev/null # bash would report a killed one
  code=$(flotilla_verdict $? "$before")
  [ "$code" -ne 77 ] || flotilla_end_orphans "$before"
  for ((left = 0; left < 20; left++)); do # the last words; who is left of the launch may hold on to the line
    flotilla_running "$hearer" || break
    sleep 0.1
  done
  if flotilla_has_begun; then
    flotilla_failing_since=$SECONDS
    [ "$code" -eq 69 ] || flotilla_failures=0
    for left in ${nodes:-$(flotilla_all_nodes)}; do unset "flotilla_bad[$left]"; done # it ran on them
  fi
}

# ---- what follows

# Counts launches in a row that left no new checkpoint, over requeues too: flotilla_tries. This job's own are counted here as well: the file may be
# another user's, or its disk full.
flotilla_made_progress() {
  local step last tries
  step=$(flotilla_newest_step)
  read -r last tries < <(flotilla_read launches)
  # What stands there is a number, or nothing: it goes into arithmetic.
  flotilla_is_number "${last-}" || last=-1
  flotilla_is_number "${tries-}" || tries=0
  if [ "$step" = "$last" ]; then tries=$((tries + 1)); else tries=1; fi
  if [ "$step" = "$flotilla_tried_at" ] && [ "$tries" -le "$flotilla_tries" ]; then tries=$((flotilla_tries + 1)); fi
  flotilla_tries=$tries flotilla_tried_at=$step
  flotilla_write launches "$step $tries" || flotilla_say "$FLOTILLA_RUN/launches cannot be written: launches before a requeue will not count after it"
  [ "$tries" -le "$FLOTILLA_TRIES" ]
}

flotilla_end() { # CODE WHY
  flotilla_say "$2; ending with $1"
  exit "$1"
}

# A warning or TERM that has come while nothing runs ends the job's stay.
flotilla_heed_warnings() {
  case $flotilla_stop in
    slurm) flotilla_end_for_slurm 75 "told to end while nothing ran" ;;
    requeue) flotilla_requeue "warned while nothing ran" ;;
  esac
}

# So many seconds, unless a warning or TERM comes.
flotilla_sleep() { # SECONDS WHY
  local end=$((SECONDS + $1))
  flotilla_say "$2: going on in $1 s"
  while [ "$SECONDS" -lt "$end" ]; do
    flotilla_heed_warnings
    [ "$flotilla_stop" != relaunch ] || return
    sleep "${FLOTILLA_POLL:-0.5}" &
    wait $!
  done
}

# FLOTILLA_PAUSE seconds after one failure, twice as long after each further one, at most twelve times that.
flotilla_growing_pause() { # FAILURES
  local pause=$FLOTILLA_PAUSE i
  for ((i = 1; i < $1 && pause < 12 * FLOTILLA_PAUSE; i++)); do pause=$((2 * pause)); done
  echo $((pause < 12 * FLOTILLA_PAUSE ? pause : 12 * FLOTILLA_PAUSE))
}

flotilla_tells_silent() ( # SINCE: $SECONDS when the waiting began
  silent=$(flotilla_silent)
  [ -n "$silent" ] || exit 1
  flotilla_say "no answer from $(tr '\n' ' ' <<<"$silent"): $((SECONDS - $1)) s of at most $FLOTILLA_NOTICE_WITHIN s that Slurm has to notice it"
)

flotilla_time_is_short() (
  left=$(flotilla_seconds_left)
  [ -n "$left" ] && [ "$left" -lt 60 ]
)

# Waits as long as a node is silent that Slurm believes in. Requeued before Slurm has noticed, a job of 22.05.8 pends for ever: what had that
# node, a component or a plain job, keeps its old nodes in mind. Once it has noticed (SlurmdTimeout), Slurm takes the node out of a plain job
# with --no-kill and requeues any other job, which ends this shell. A node may also answer again.
flotilla_await_nodes() {
  local began=$SECONDS looks=0 i
  while flotilla_tells_silent "$began"; do
    [ $((SECONDS - began)) -lt "$FLOTILLA_NOTICE_WITHIN" ] || { flotilla_say "Slurm has not noticed it: requeueing anyway" && return; }
    ! flotilla_time_is_short || { flotilla_say "the job's time is nearly over: requeueing anyway" && return; }
    looks=$((looks + 1))
    for ((i = 0; i < (looks < 6 ? 5 * looks : 30); i++)); do
      [ "$flotilla_stop" != slurm ] || flotilla_end_for_slurm 75 "requeued by Slurm"
      sleep 1 &
      wait $!
    done
  done
  [ "$flotilla_stop" != slurm ] || flotilla_end_for_slurm 75 "requeued by Slurm" # the look itself ends with the signal
}

# Where a component has lost its last node, Slurm 22.05.8 requeues the components up to it and leaves those after it running; they would end
# with this shell, and the job could never start again. A requeue before that takes them along, although Slurm answers that the job is pending.
flotilla_take_along() (
  flotilla_is_het || exit 0
  for i in 1 2 3; do
    states=$(squeue -h -j "$SLURM_JOB_ID" -o %t 2>/dev/null)
    grep -qx PD <<<"$states" && grep -qx R <<<"$states" || exit 0
    flotilla_say "Slurm has requeued a part of this job: asking it for the rest"
    scontrol requeue "$SLURM_JOB_ID" 2>/dev/null
    sleep 0.5
  done
)

# Whether slurmctld was started again since TERM came, and takes this job for running: it crashed before it had written down the requeue or
# preemption, as it does every few seconds. The job would be over with this shell. What does not answer is waited for as long as TERM leaves.
flotilla_is_forgotten() (
  [ -n "${flotilla_told-}" ] || exit 1
  for ((i = 0; i < 30; i++)); do
    state=$(scontrol show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n 1)
    [ -z "$state" ] || break
    sleep 1
  done
  [ "$state" = RUNNING ] || exit 1
  began=$(date -d "$(scontrol show config 2>/dev/null | sed -n 's/^BOOT_TIME *= *//p')" +%s 2>/dev/null)
  flotilla_is_number "$began" && [ "$began" -ge "$flotilla_told" ]
)

flotilla_end_for_slurm() { # CODE WHY
  flotilla_take_along
  ! flotilla_is_forgotten || flotilla_requeue "slurmctld was started again and has forgotten why it ended this job"
  flotilla_end "$1" "$2"
}

# The list of nodes under a name in what "scontrol show job" says; empty for "(null)".
flotilla_nodes_in() { # NAME FACTS
  sed -n "s/.*\\b$1=\\([A-Za-z0-9_.,[-]*\\]*\\).*/\\1/p" <<<"$2" | head -n 1
}

# Asks Slurm for other nodes at the next start, where the partition has as many left as the job or its component has now, and the job does not
# name the node itself (--nodelist): a job that can never start would be worse. Slurm takes it of a job that has just been requeued; a running
# one it refuses.
flotilla_leave_out() { # NODE...
  local k suffix id partition count facts others list out required
  for ((k = 0; k < (SLURM_HET_SIZE > 1 ? SLURM_HET_SIZE : 1); k++)); do
    if flotilla_is_het; then suffix=_HET_GROUP_$k; else suffix=; fi
    id=SLURM_JOB_ID$suffix partition=SLURM_JOB_PARTITION$suffix count=SLURM_JOB_NUM_NODES$suffix
    if [ -z "${!id-}" ] || [ -z "${!partition-}" ]; then continue; fi
    facts=$(scontrol show job "${!id}" 2>/dev/null)
    list=$(flotilla_nodes_in ExcNodeList "$facts") required=$(flotilla_nodes_in ReqNodeList "$facts")
    if [ -n "$required" ] && flotilla_hosts "$required" | grep -qxF -e "$(printf '%s\n' "$@")"; then
      flotilla_say "job ${!id} names its nodes ($required): none is left out"
      continue
    fi
    mapfile -t out < <(printf '%s\n' "$@" && if [ -n "$list" ]; then flotilla_hosts "$list"; fi)
    others=$(sinfo -h -N -p "${!partition}" -t idle,alloc,mix,comp -o %n 2>/dev/null | sort -u | grep -vxF -e "$(printf '%s\n' "${out[@]}")" -c)
    # Slurm may be ending this shell and what it starts: without an answer nothing is left out.
    if ! flotilla_is_number "$others" || [ "$others" -lt "${!count:-1}" ]; then
      flotilla_say "partition ${!partition} has no other nodes for these: $*"
      continue
    fi
    list=${list:+$list,}$(tr ' ' ',' <<<"$*")
    if scontrol update "jobid=${!id}" "excnodelist=$list"; then flotilla_say "job ${!id} will start without $list"; fi
  done
}

# Back to the queue: the script is killed by it and started again when the job's turn comes.
flotilla_requeue() { # WHY [hold]
  local how=requeue i=0 bad
  [ "${SLURM_RESTART_COUNT:-0}" -lt "$FLOTILLA_REQUEUES" ] || flotilla_end 75 "$1; already requeued ${SLURM_RESTART_COUNT} times (FLOTILLA_REQUEUES)"
  [ "${2-}" != hold ] || how=requeuehold
  case $code in 69 | 75 | 76) ;; *) flotilla_stop="" && flotilla_await_nodes ;; esac # ended in order: every rank has just spoken
  flotilla_say "$1: back to the queue"
  flotilla_stop="" flotilla_told=""
  trap 'flotilla_stop=requeued flotilla_told=$EPOCHSECONDS' TERM
  # The requeue may end scontrol, which is part of the job, before it can say that it has worked.
  until scontrol "$how" "$SLURM_JOB_ID" || [ $? -gt 128 ] || [ -n "$flotilla_stop" ]; do
    ! scontrol ping 2>/dev/null | grep -q UP || flotilla_end 75 "Slurm does not requeue this job (#SBATCH --requeue?)"
    [ $((i += 1)) -le "$FLOTILLA_NOTICE_WITHIN" ] || flotilla_end 75 "slurmctld does not answer"
    flotilla_say "slurmctld does not answer: asking again"
    sleep "$FLOTILLA_PAUSE" &
    wait $!
  done
  mapfile -t bad < <(flotilla_bad_nodes)
  [ ${#bad[@]} -eq 0 ] || flotilla_leave_out "${bad[@]}"
  for ((i = 0; i < 300; i++)); do # until Slurm ends this shell
    [ -z "$flotilla_stop" ] || break
    sleep 1 &
    wait $!
  done
  flotilla_end_for_slurm 75 "requeued"
}

# A launch that no rank has come out of, which says nothing of the run: tries again here, with growing pauses and without the nodes that it failed
# on twice, and elsewhere when that does not help.
flotilla_not_started() {
  local nodes blamed node tasks=$FLOTILLA_TASKS why="no rank has started"
  flotilla_failures=$((flotilla_failures + 1))
  ! flotilla_is_het || tasks=0
  mapfile -t nodes < <(flotilla_all_nodes)
  if [ -n "$flotilla_launched_on" ]; then mapfile -t nodes < <(printf '%s\n' "${nodes[@]}" | grep -xF -e "$(tr ' ' '\n' <<<"$flotilla_launched_on")"); fi
  mapfile -t blamed < <(flotilla_blamed "$flotilla_words" "$tasks" "${nodes[@]}")
  # What failed on all of them is no node's fault.
  if [ ${#blamed[@]} -lt ${#nodes[@]} ]; then
    for node in "${blamed[@]}"; do flotilla_bad[$node]=$((${flotilla_bad[$node]-0} + 1)); done
  fi
  [ ${#blamed[@]} -eq 0 ] || why="$why: the launch failed on ${blamed[*]}"
  if [ $((SECONDS - flotilla_failing_since)) -ge "$FLOTILLA_START_WITHIN" ]; then
    flotilla_say "$why; $flotilla_failures launches in $((SECONDS - flotilla_failing_since)) s have come to nothing"
    [ -z "${flotilla_chained-}" ] || flotilla_end 77 "$flotilla_failures launches in a row failed"
    for node in "${!flotilla_bad[@]}"; do flotilla_bad[$node]=2; done # there is no time for a second try
    flotilla_requeue "launches fail on these nodes"
  fi
  flotilla_which=answering
  flotilla_skip_steps
  flotilla_sleep "$(flotilla_growing_pause "$flotilla_failures")" "$why"
}

# The run directory is full or away. What the run has saved is safe: waits until there is room again; in the queue where that takes long.
flotilla_no_room() {
  local why="the run directory is full or away"
  until [ $((SECONDS - flotilla_failing_since)) -ge "$FLOTILLA_START_WITHIN" ]; do
    flotilla_failures=$((flotilla_failures + 1))
    flotilla_sleep "$(flotilla_growing_pause "$flotilla_failures")" "$why"
    ! flotilla_has_room || return 0
  done
  [ -z "${flotilla_chained-}" ] || flotilla_end 75 "$why; job $flotilla_chained goes on"
  flotilla_requeue "$why"
}

flotilla_lost() {
  local node nodes
  if ! flotilla_has_begun && [ -z "$(flotilla_word "$before")" ]; then
    flotilla_not_started
    return
  fi
  flotilla_made_progress || flotilla_end 77 "$FLOTILLA_TRIES launches in a row ended without a new checkpoint"
  if flotilla_is_het; then
    flotilla_requeue "a peer or node was lost"
  fi
  flotilla_bad=() # it ran on all of them
  if [ "$flotilla_tries" -gt 1 ]; then
    mapfile -t nodes < <(flotilla_all_nodes)
    for node in $(flotilla_accused "$before" "${nodes[@]}"); do flotilla_bad[$node]=2; done # its second time
  fi
  [ ${#flotilla_bad[@]} -eq 0 ] || flotilla_say "lost again without a new checkpoint: leaving out ${!flotilla_bad[*]}"
  flotilla_which=answering
  flotilla_say "a peer or node was lost: starting again on the nodes left"
}

# On a part of the job's nodes, since the others did not answer or were left out, nothing fitting is no reason to stop.
flotilla_no_plan() {
  [ "$(wc -w <<<"$flotilla_launched_on")" -ge "$(flotilla_all_nodes | wc -l)" ] || flotilla_is_het || flotilla_requeue "no plan fits the nodes that answer"
  case $FLOTILLA_ON_NO_PLAN in
    stop) flotilla_end 76 "no plan fits what the job has" ;;
    requeue) flotilla_requeue "no plan fits what the job has" ;;
    wait) flotilla_requeue "no plan fits what the job has; waiting for 'scontrol release $SLURM_JOB_ID'" hold ;;
  esac
}

flotilla_saved() {
  case $flotilla_stop in
    relaunch) flotilla_say "saved: starting again on what the job has now" ;;
    slurm) flotilla_end_for_slurm 75 "saved; Slurm decides what becomes of the job" ;;
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
  flotilla_require_numbers FLOTILLA_LINKS
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

flotilla_leave() { # CODE
  rm -f -- "$flotilla_words"
  case ${flotilla_chained:-none} in none) ;; *) flotilla_unchain "$1" ;; esac
}

flotilla_job() {
  local code launch before flotilla_launched_on="" flotilla_begun_before flotilla_newest flotilla_tries=0 flotilla_tried_at="" flotilla_failures=0 flotilla_failing_since=$SECONDS
  declare -gA flotilla_bad=() # by node: launches in a row that failed on it
  flotilla_check
  umask 077
  flotilla_own_run
  flotilla_words=$(mktemp "${TMPDIR:-/tmp}/flotilla-$SLURM_JOB_ID.XXXXXXXX") || flotilla_end 69 "no room for a temporary file on $HOSTNAME"
  trap 'flotilla_leave $?' EXIT
  flotilla_stop="" flotilla_which=all
  trap 'flotilla_warned requeue "warned by Slurm"' USR2
  trap 'flotilla_warned relaunch "asked to start again"' USR1
  trap 'flotilla_warned slurm "told to end"' TERM
  [ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] || flotilla_skip_steps
  while :; do
    flotilla_launch "$@" "--run.directory=$FLOTILLA_RUN"
    case $code in
      0) flotilla_end 0 "done" ;;
      75) flotilla_saved ;;
      76) flotilla_no_plan ;;
      77)
        [ "$flotilla_stop" != slurm ] || flotilla_end_for_slurm 77 "ended by Slurm before it could save"
        [ -z "${flotilla_chained-}" ] || ! flotilla_is_het || flotilla_end 77 "a peer or node was lost"
        flotilla_lost
        ;;
      *)
        if [ "$code" -eq 69 ] && flotilla_needs_room; then flotilla_no_room; else flotilla_end "$code" "starting again would not help"; fi
        ;;
    esac
  done
}
