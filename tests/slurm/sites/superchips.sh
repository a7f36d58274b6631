# shellcheck shell=bash disable=SC2034
# GH200: one superchip a node, 72 cores with one GPU; four of them a node in another partition.
conf() {
  cat <<'CONF'
NodeName=gh[001-012] Sockets=1 CoresPerSocket=72 RealMemory=573440 Gres=gpu:gh200:1 Feature=gh200,96gb
NodeName=gq[001-004] Sockets=4 CoresPerSocket=72 RealMemory=870000 Gres=gpu:gh200_120gb:4
PartitionName=gh Nodes=gh[001-012] Default=YES MaxTime=1-00:00:00
PartitionName=gq Nodes=gq[001-004] MaxTime=1-00:00:00
CONF
}
right=(--partition=gq --gres=gpu:gh200_120gb:4 --cpus-per-task=72)
