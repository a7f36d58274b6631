# shellcheck shell=bash disable=SC2034
# A core runs one task, whatever threads it has.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory,CR_ONE_TASK_PER_CORE
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 ThreadsPerCore=2 RealMemory=512000 Gres=gpu:a100-80gb:4
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00 DefMemPerCPU=3000
CONF
}
right=(--gres=gpu:a100-80gb:4)
