# shellcheck shell=bash disable=SC2034
# Nodes are shared among jobs of one user alone (ExclusiveUser), with jobs of somebody else on two of them.
conf() {
  cat <<'CONF'
NodeName=g[1-5] Sockets=2 CoresPerSocket=16 RealMemory=256000 Gres=gpu:rtx_3090:8
PartitionName=gpu Nodes=g[1-5] Default=YES MaxTime=1-00:00:00 ExclusiveUser=YES
CONF
}
state() { busy --uid=nobody -N2 --ntasks-per-node=2 --gres=gpu:rtx_3090:1; }
right=(--gres=gpu:rtx_3090:8 --cpus-per-task=4)
