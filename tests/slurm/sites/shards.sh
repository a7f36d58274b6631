# shellcheck shell=bash disable=SC2034
# Cards that jobs may share by shards: one has such a job on it.
conf() {
  cat <<'CONF'
GresTypes=gpu,shard
NodeName=g[1-3] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100-80:4,shard:16
PartitionName=gpu Nodes=g[1-3] Default=YES MaxTime=1-00:00:00
CONF
}
state() { busy -N1 -n1 --gres=shard:2; }
right=(--gres=gpu:a100-80:3 --cpus-per-task=16)
