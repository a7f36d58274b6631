#!/bin/bash
# EpilogSlurmctld: runs on the controller after a job (each component of a heterogeneous one), as SlurmUser.
#   slurm.conf:  EpilogSlurmctld=/etc/slurm/epilog_slurmctld.sh
# A pending component whose partition has fewer nodes left than it asks for would wait for a repair. Where that is so, this asks for the nodes
# there are: the job comes back on a different mix, and flotilla plans for it. Jobs take part by their name: FLOTILLA_NAMES, a pattern.
FLOTILLA_NAMES=${FLOTILLA_NAMES:-flotilla*}

# shellcheck disable=SC2254
case ${SLURM_JOB_NAME-} in $FLOTILLA_NAMES) ;; *) exit 0 ;; esac
[[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ && ${SLURM_JOB_PARTITION-} =~ ^[A-Za-z0-9_.-]+$ ]] || exit 0

# Slurmctld waits for this script and the requeue comes after it: so look a little later, in the background, and no longer than a minute.
(
  for ((i = 0; i < 60; i++)); do
    sleep 1
    [ "$(squeue -h -t PD -j "$SLURM_JOB_ID" -o %t 2>/dev/null)" = "" ] || break
  done
  squeue -h -t PD -j "$SLURM_JOB_ID" -o '%A %D' 2>/dev/null | while read -r job wants; do
    [ "$job" = "$SLURM_JOB_ID" ] || continue
    up=$(sinfo -h -p "$SLURM_JOB_PARTITION" -t idle,alloc,mix,comp -o %D | awk '{n += $1} END {print n + 0}')
    if [ "$up" -ge 1 ] && [ "$up" -lt "$wants" ]; then scontrol update jobid="$job" NumNodes=1-"$up"; fi
  done
) >/dev/null 2>&1 </dev/null &
exit 0
