# shellcheck shell=bash disable=SC2034
# The site says how many CPUs and how much memory go with a GPU.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
NodeName=g[1-4] Sockets=2 CoresPerSocket=64 RealMemory=1031000 Gres=gpu:l40s:8
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00 DefCpuPerGPU=12 DefMemPerGPU=100000
CONF
}
right=(--gres=gpu:l40s:8 --cpus-per-task=12)
