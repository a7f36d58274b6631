#!/bin/bash
# Prolog: runs on each node of a job before its first task, as root. A node that fails it is drained and the job requeued: that is what a health
# check wants, and why this checks little.
#   slurm.conf:  Prolog=/etc/slurm/prolog.sh
FLOTILLA_SHM_PERCENT=${FLOTILLA_SHM_PERCENT:-50} # MPI puts its shared memory into /dev/shm

used=$(df --output=pcent /dev/shm | tail -1 | tr -dc 0-9)
[ "${used:-0}" -ge "$FLOTILLA_SHM_PERCENT" ] || exit 0

# Only what the system or the job's own user has left there says that the node is ill. Anybody can fill /dev/shm: were that enough, each could
# drain every node.
size=$(df --output=size -B1 /dev/shm | tail -1 | tr -dc 0-9)
others=$(find /dev/shm -xdev -type f -uid +999 ! -uid "${SLURM_JOB_UID:-0}" -printf '%b %u\n' 2>/dev/null)
theirs=$(awk '{ n += 512 * $1 } END { printf "%.0f", n }' <<<"$others")
if [ $((used - 100 * theirs / (size > 0 ? size : 1))) -ge "$FLOTILLA_SHM_PERCENT" ]; then
  echo "flotilla prolog: /dev/shm is $used % full on $(hostname)" >&2
  exit 1
fi
echo "flotilla prolog: /dev/shm is $used % full on $(hostname), of files of $(awk '{ print $2 }' <<<"$others" | sort -u | tr '\n' ' '): not drained" >&2
exit 0
