# shellcheck shell=bash disable=SC2034
# Three kinds of cards, each in a partition of its own with another limit of nodes, in one heterogeneous job.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
NodeName=a[01-08] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100-40gb:4
NodeName=v[001-010] Sockets=2 CoresPerSocket=16 RealMemory=192000 Gres=gpu:v100-32:4
NodeName=l[1-6] Sockets=1 CoresPerSocket=48 RealMemory=256000 Gres=gpu:l40s:2
PartitionName=DEFAULT DefMemPerCPU=3900 MaxMemPerCPU=4000 MaxTime=1-00:00:00
PartitionName=ampere Nodes=a[01-08] Default=YES MaxNodes=6
PartitionName=volta Nodes=v[001-010] MaxNodes=8 MinNodes=2
PartitionName=ada Nodes=l[1-6]
CONF
}
state() {
  scontrol update nodename=v001 state=drain reason=test
  busy -p ampere -N1 -n1
}
submit=(--training.length=2048 --submit.time=2h)
right=(hetjob --partition=ampere --partition=volta --partition=ada)
