# shellcheck shell=bash disable=SC2034
# So much memory comes with a GPU that busy nodes have it for fewer GPUs than are free.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
DefCpuPerGPU=8
DefMemPerGPU=120000
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:h100:4
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
CONF
}
state() { busy -N4 --ntasks-per-node=1 -c4 --mem=200000; }
right=(--gres=gpu:h100:2 --cpus-per-task=8 --mem=240000M)
