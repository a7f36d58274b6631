#!/bin/bash
# EpilogSlurmctld: runs on the controller after a job (each component of a heterogeneous one), as SlurmUser.
#   slurm.conf:  EpilogSlurmctld=/etc/slurm/epilog_slurmctld.sh
# A pending component whose partition has fewer nodes left than it asks for would wait for a repair. Where that is so, this asks for the nodes
# there are: the job comes back on a different mix, and flotilla plans for it. Jobs take part by their name: FLOTILLA_NAMES, a pattern.
FLOTILLA_NAMES=${FLOTILLA_NAMES:-flotilla*}

# shellcheck disable=SC2254
case ${SLURM_JOB_NAME-} in $FLOTILLA_NAMES) ;; *) exit 0 ;; esac
[[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ && ${SLURM_JOB_PARTITION-} =~ ^[A-Za-z0-9_.-]+$ ]] || exit 0

# Slurmctld waits for this script, and the requeue comes after it: so look a little later, in a session of its own, which slurmctld does not
# end with this one, and for no longer than a minute.
if [ "${1-}" != later ]; then
  setsid "$0" later >/dev/null 2>&1 </dev/null &
  exit 0
fi
# A job of ours that Slurm holds because its start has failed ("launch failed requeued held") would wait for an administrator. It is released
# after a pause; how often, the job's own restarts bound. A person's hold has another reason and stays.
FLOTILLA_RELEASES=${FLOTILLA_RELEASES:-10}
FLOTILLA_RELEASE_AFTER=${FLOTILLA_RELEASE_AFTER:-30} # seconds
release_if_held() {
  local reason restarts
  reason=$(squeue -h -t PD -j "$SLURM_JOB_ID" -o '%A|%r' | sed -n "s/^$SLURM_JOB_ID|//p")
  [ "$reason" = "launch failed requeued held" ] || return 0
  restarts=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/.* Restarts=\([0-9]\{1,6\}\) .*/\1/p')
  [ "${restarts:-0}" -le "$FLOTILLA_RELEASES" ] || return 0
  sleep "$FLOTILLA_RELEASE_AFTER"
  scontrol release "$SLURM_JOB_ID"
}

for ((i = 0; i < 60; i++)); do
  sleep 1
  wants=$(squeue -h -t PD -j "$SLURM_JOB_ID" -o '%A %D %N' | awk -v job="$SLURM_JOB_ID" '$1 == job && NF == 2 {print $2}')
  [ -z "$wants" ] || break # pending, and its nodes given back
done
[ -n "$wants" ] || exit 0
release_if_held
up=$(sinfo -h -p "$SLURM_JOB_PARTITION" -t idle,alloc,mix,comp -o %D | awk '{n += $1} END {print n + 0}')
if [ "$up" -ge 1 ] && [ "$up" -lt "$wants" ]; then scontrol update jobid="$SLURM_JOB_ID" NumNodes="1-$up"; fi
