# shellcheck shell=bash disable=SC2034
# The processors have two threads a core, and the site counts cores as CPUs; one is kept for the system.
conf() {
  cat <<'CONF'
TaskPlugin=task/affinity
NodeName=g[1-4] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=2 CoreSpecCount=1 RealMemory=512000 Gres=gpu:a100-80gb:4
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
CONF
}
right=(--gres=gpu:a100-80gb:4 --cpus-per-task=15)
