# shellcheck shell=bash disable=SC2034
# Two types of cards in every node, and a partition of their CPUs beside it.
conf() {
  cat <<'CONF'
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 RealMemory=1031000 Gres=gpu:a100-pcie-80gb:2,gpu:h100-pcie:6
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
PartitionName=cpu Nodes=g[1-4] MaxTime=1-00:00:00 MaxCPUsPerNode=16
CONF
}
submit=(--submit.partitions=gpu)
right=(--gres=gpu:h100-pcie:6 --cpus-per-task=10)
says=("2 A100-PCIe-80, too: left out")
