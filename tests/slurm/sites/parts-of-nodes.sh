# shellcheck shell=bash disable=SC2034
# Memory is given out, too, and every node has a job of somebody on it: two cards, 20 cores and their memory.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
NodeName=g[01-04] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:h100:4
PartitionName=gpu Nodes=g[01-04] Default=YES MaxTime=1-00:00:00 DefMemPerCPU=4000
CONF
}
state() { for n in 1 2 3 4; do busy -N1 -n1 -c20 --gres=gpu:h100:2 -w "g0$n"; done; }
right=(--partition=gpu --gres=gpu:h100:2 --cpus-per-task=16)
