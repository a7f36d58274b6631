# shellcheck shell=bash disable=SC2034
# The job asks for 400 GiB of a node: two nodes have as much left.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1000
NodeName=g[1-6] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:h100:4
PartitionName=gpu Nodes=g[1-6] Default=YES MaxTime=1-00:00:00
CONF
}
state() { busy -N4 --ntasks-per-node=1 -c4 --mem=256000 --gres=gpu:h100:1; }
submit=(--submit.memory=400GiB)
right=(--gres=gpu:h100:4 --mem=409600M --nodes=1-2)
says=("4 nodes have free H100 but not as much free memory")
