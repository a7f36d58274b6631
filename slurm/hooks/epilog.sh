#!/bin/bash
# Epilog: runs on each node after a job, as root: removes what killed ranks leave on the node. Only files of the job's own user, and only when
# no process of that user is left: another job of theirs may be running here.
#   slurm.conf:  Epilog=/etc/slurm/epilog.sh
[[ ${SLURM_JOB_UID-} =~ ^[0-9]+$ ]] || exit 0
FLOTILLA_CLEAN_ROOT=${FLOTILLA_CLEAN_ROOT:-no} # yes: root's jobs too (a cluster for tests)
[ "$SLURM_JOB_UID" -ge 1000 ] || [ "$FLOTILLA_CLEAN_ROOT" = yes ] || exit 0

[[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ ]] || exit 0
# Who does not know what runs here removes nothing: slurmctld may be away or too busy to answer.
jobs=$(timeout 30 squeue -h -u "$SLURM_JOB_UID" -w "${SLURMD_NODENAME:-$(hostname -s)}" -t R,CG,S,CF -o %A 2>/dev/null) || exit 0
! grep -qvx -e "$SLURM_JOB_ID" -e '' <<<"$jobs" || exit 0
# Open MPI's and UCX's names, as they were seen after kill -9.
find /dev/shm -maxdepth 1 -uid "$SLURM_JOB_UID" \( -name 'vader_segment.*' -o -name 'ucx_shm_*' -o -name 'sm_segment.*' \) -delete 2>/dev/null
find "${TMPDIR:-/tmp}" -maxdepth 1 -uid "$SLURM_JOB_UID" \( -name 'ompi.*' -o -name 'spmix_appdir_*' \) -exec rm -rf {} + 2>/dev/null
exit 0
