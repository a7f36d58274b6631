# shellcheck shell=bash disable=SC2034
# Memory is kept for the system, and what comes with all CPUs is more than is left.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=7900
MaxMemPerNode=500000
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 MemSpecLimit=16000 RealMemory=512000 Gres=gpu:h200:8
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
CONF
}
right=(--gres=gpu:h200:8 --cpus-per-task=8 --mem=496000M)
