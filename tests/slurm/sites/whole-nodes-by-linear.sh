# shellcheck shell=bash disable=SC2034
# select/linear gives whole nodes alone.
conf() {
  cat <<'CONF'
SelectType=select/linear
SelectTypeParameters=CR_Memory
NodeName=g[1-4] Sockets=2 CoresPerSocket=24 RealMemory=192000 Gres=gpu:v100-32:4
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00 DefMemPerNode=90000
CONF
}
state() { busy -N1 -n1; }
right=(--gres=gpu:v100-32:4 --cpus-per-task=12)
