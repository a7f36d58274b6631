# shellcheck shell=bash disable=SC2034
# Jobs get whole nodes, whatever they ask for; one has a node already.
conf() {
  cat <<'CONF'
NodeName=node-[1-5] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100_40:4
PartitionName=booster Nodes=node-[1-5] Default=YES MaxTime=1-00:00:00 OverSubscribe=EXCLUSIVE
CONF
}
state() { busy -N1 -n1; }
right=(--partition=booster --gres=gpu:a100_40:4 --cpus-per-task=16 --exclusive)
