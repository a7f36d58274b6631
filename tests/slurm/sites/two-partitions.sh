# shellcheck shell=bash disable=SC2034
# Old and new cards in partitions of their own: a heterogeneous job takes both.
conf() {
  cat <<'CONF'
NodeName=a[1-2] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100-40gb:4
NodeName=v[1-6] Sockets=2 CoresPerSocket=16 RealMemory=192000 Gres=gpu:v100-16:4
PartitionName=a100 Nodes=a[1-2] Default=YES MaxTime=12:00:00
PartitionName=v100 Nodes=v[1-6] MaxTime=1-00:00:00
CONF
}
submit=(--training.length=2048 --submit.time=2h)
right=(--partition=a100 --partition=v100 hetjob --gres=gpu:a100-40gb:4 --gres=gpu:v100-16:4)
