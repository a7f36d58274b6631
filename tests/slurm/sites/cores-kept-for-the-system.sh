# shellcheck shell=bash disable=SC2034
# A core of each socket is kept for the system, as LUMI-G and Frontier do, and two threads run on each core.
conf() {
  cat <<'CONF'
TaskPlugin=task/affinity
SelectTypeParameters=CR_Core_Memory
NodeName=DEFAULT Sockets=4 CoresPerSocket=16 ThreadsPerCore=2 CoreSpecCount=8 MemSpecLimit=32768 RealMemory=512000
NodeName=nid[005001-005008] Gres=gpu:a100-sxm4-40gb:4
PartitionName=standard-g Nodes=nid[005001-005008] Default=YES MaxTime=2-00:00:00 DefMemPerCPU=3500 OverSubscribe=EXCLUSIVE
CONF
}
right=(--partition=standard-g --gres=gpu:a100-sxm4-40gb:4 --exclusive)
