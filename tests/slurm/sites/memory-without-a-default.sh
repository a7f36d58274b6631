# shellcheck shell=bash disable=SC2034
# Memory is given out and no default is set: a job that asks for none gets all of a node's, which busy nodes do not have.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
NodeName=g[01-04] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:h100:4
PartitionName=gpu Nodes=g[01-04] Default=YES MaxTime=1-00:00:00
CONF
}
state() { for n in 1 2 3 4; do busy -N1 -n1 -c16 --mem=64G --gres=gpu:h100:1 -w "g0$n"; done; }
right=(--partition=gpu --gres=gpu:h100:3 --cpus-per-task=16)
