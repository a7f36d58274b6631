# shellcheck shell=bash disable=SC2034
# One core of 64 with two threads each is kept for the system: 126 CPUs for eight cards.
conf() {
  cat <<'CONF'
TaskPlugin=task/affinity
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 ThreadsPerCore=2 CoreSpecCount=1 RealMemory=512000 Gres=gpu:h200:8
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
CONF
}
right=(--gres=gpu:h200:8)
