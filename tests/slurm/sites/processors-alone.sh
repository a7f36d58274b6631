# shellcheck shell=bash disable=SC2034
# No GPUs at all.
conf() {
  cat <<'CONF'
NodeName=c[01-06] Sockets=2 CoresPerSocket=64 RealMemory=256000 Feature=milan
PartitionName=cpu Nodes=c[01-06] Default=YES MaxTime=1-00:00:00
CONF
}
state() { busy -N2 --ntasks-per-node=32; }
submit=(--submit.device-types=partition:cpu=CPU --submit.cpus-per-task=8 --training.global-batch=96)
right=(--partition=cpu --cpus-per-task=8)
