# shellcheck shell=bash disable=SC2034
# A job gets 200 GB of each node where it does not ask; busy nodes have half of theirs.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
DefMemPerNode=200000
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:h100:4
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
CONF
}
state() { busy -N4 --ntasks-per-node=1 -c4 --mem=256000 --gres=gpu:h100:1; }
right=(--gres=gpu:h100:3 --cpus-per-task=16)
