#!/bin/bash
# Prolog: runs on each node of a job before its first task, as root. A node that fails it is drained and the job requeued: that is what a health
# check wants, and why this checks little.
#   slurm.conf:  Prolog=/etc/slurm/prolog.sh
FLOTILLA_SHM_PERCENT=${FLOTILLA_SHM_PERCENT:-50} # MPI puts its shared memory into /dev/shm

used=$(df --output=pcent /dev/shm | tail -1 | tr -dc 0-9)
if [ "${used:-0}" -ge "$FLOTILLA_SHM_PERCENT" ]; then
  echo "flotilla prolog: /dev/shm is $used % full on $(hostname)" >&2
  exit 1
fi
exit 0
