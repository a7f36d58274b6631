# shellcheck shell=bash disable=SC2034
# The GPU partition may have 40 of 64 cores, the CPU partition the other 24: no job gets a whole node.
conf() {
  cat <<'CONF'
NodeName=g[1-6] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100-pcie-40gb:4
PartitionName=gpu Nodes=g[1-6] Default=YES MaxTime=1-00:00:00 MaxCPUsPerNode=40
PartitionName=cpu Nodes=g[1-6] MaxTime=1-00:00:00 MaxCPUsPerNode=24
CONF
}
right=(--partition=gpu --gres=gpu:a100-pcie-40gb:4 --cpus-per-task=10)
