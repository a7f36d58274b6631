# shellcheck shell=bash disable=SC2034
# Nodes of four and of eight cards in one partition, with unlike processors and weights.
conf() {
  cat <<'CONF'
NodeName=a[1-4] Sockets=2 CoresPerSocket=16 RealMemory=512000 Gres=gpu:h100:4,nvme:1 Weight=10
NodeName=b[1-2] Sockets=2 CoresPerSocket=56 RealMemory=2063000 Gres=gpu:h100:8,nvme:4 Weight=100
GresTypes=gpu,nvme
PartitionName=gpu Nodes=a[1-4],b[1-2] Default=YES MaxTime=1-00:00:00
CONF
}
right=(--gres=gpu:h100:4 --cpus-per-task=8)
