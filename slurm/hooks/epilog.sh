#!/bin/bash
# Epilog: runs on each node after a job, as root: removes what killed ranks and steps leave on the node. Of ranks, only files of the job's own
# user, and only when no process of that user is left: another job of theirs may be running here.
#   slurm.conf:  Epilog=/etc/slurm/epilog.sh
[[ ${SLURM_JOB_UID-} =~ ^[0-9]+$ ]] || exit 0
FLOTILLA_CLEAN_ROOT=${FLOTILLA_CLEAN_ROOT:-no} # yes: root's jobs too (a cluster for tests)
[ "$SLURM_JOB_UID" -ge 1000 ] || [ "$FLOTILLA_CLEAN_ROOT" = yes ] || exit 0

[[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ ]] || exit 0
node=${SLURMD_NODENAME:-$(hostname -s)}

# What a killed slurmstepd leaves of Slurm's PMIx plugin in slurmd's folder is in the way of later steps of its job and number: sockets and
# folders of jobs that are not here any more. A heterogeneous job's bear the number of its first component.
clean_pmix() {
  local here spool path job
  here=$(timeout 30 squeue -h -w "$node" -t R,CG,S,CF -o '%A %i' 2>/dev/null) || return 0
  spool=$(timeout 30 scontrol show config 2>/dev/null | sed -n 's/^SlurmdSpoolDir *= *//p')
  spool=${spool//%n/$node} spool=${spool//%h/$(hostname -s)}
  [ -n "$spool" ] || return 0
  here=$(awk -v own="$SLURM_JOB_ID" '$1 != own { print $1; sub(/[+_].*/, "", $2); print $2 }' <<<"$here")
  for path in "$spool"/stepd.slurm.pmix.*.* "$spool"/pmix.*.*; do
    [[ $path =~ pmix\.([0-9]+)\.[0-9]+$ ]] || continue
    job=${BASH_REMATCH[1]}
    grep -qx "$job" <<<"$here" || rm -rf "$path"
  done
}
clean_pmix

# Who does not know what runs here removes nothing: slurmctld may be away or too busy to answer.
jobs=$(timeout 30 squeue -h -u "$SLURM_JOB_UID" -w "$node" -t R,CG,S,CF -o %A 2>/dev/null) || exit 0
! grep -qvx -e "$SLURM_JOB_ID" -e '' <<<"$jobs" || exit 0
# Open MPI's and UCX's names, as they were seen after kill -9, and those of slurm/flotilla.sh: of its ranks, and of a batch script's words.
find /dev/shm -maxdepth 1 -uid "$SLURM_JOB_UID" \( -name 'vader_segment.*' -o -name 'ucx_shm_*' -o -name 'sm_segment.*' \) -delete 2>/dev/null
find "${TMPDIR:-/tmp}" -maxdepth 1 -uid "$SLURM_JOB_UID" -regextype posix-extended \( -name 'ompi.*' -o -name 'spmix_appdir_*' \
  -o -regex ".*/flotilla-$SLURM_JOB_UID-[0-9]+(\.[A-Za-z0-9]{8})?" -o -regex '.*/flotilla-[0-9]+\.[A-Za-z0-9]{8}' \) -exec rm -rf {} + 2>/dev/null
exit 0
