#!/bin/bash
# Prolog: runs on each node of a job before its first task, as root. A node that fails it is drained and the job requeued: that is what a health
# check wants, and why this checks little.
#   slurm.conf:  Prolog=/etc/slurm/prolog.sh
FLOTILLA_SHM_PERCENT=${FLOTILLA_SHM_PERCENT:-50} # MPI puts its shared memory into /dev/shm

used=$(df --output=pcent /dev/shm | tail -1 | tr -dc 0-9)
[ "${used:-0}" -ge "$FLOTILLA_SHM_PERCENT" ] || exit 0

# Only files that are seen there and belong to accounts of the system say that the node is ill. Anybody can fill /dev/shm, with files without a
# name, too, and start a job of their own: were that enough, each could drain every node.
size=$(df --output=size -B1 /dev/shm | tail -1 | tr -dc 0-9)
owners=$(find /dev/shm -xdev -type f -printf '%b %U\n' 2>/dev/null)
systems=$(awk '$2 < 1000 { n += 512 * $1 } END { printf "%.0f", n }' <<<"$owners")
if [ $(((100 * systems + size - 1) / (size > 0 ? size : 1))) -ge "$FLOTILLA_SHM_PERCENT" ]; then
  echo "flotilla prolog: /dev/shm is $used % full on $(hostname)" >&2
  exit 1
fi
echo "flotilla prolog: /dev/shm is $used % full on $(hostname), of files of users $(awk '$2 >= 1000 { print $2 }' <<<"$owners" | sort -un | tr '\n' ' '): not drained" >&2
exit 0
