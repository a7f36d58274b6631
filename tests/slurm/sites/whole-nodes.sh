# shellcheck shell=bash disable=SC2034
# Nodes of eight cards and one partition, as a small group has them.
conf() {
  cat <<'CONF'
NodeName=g[01-04] Sockets=2 CoresPerSocket=48 RealMemory=1031000 Gres=gpu:nvidia_a100-sxm4-80gb:8
PartitionName=gpu Nodes=g[01-04] Default=YES MaxTime=1-00:00:00 DefaultTime=1:00:00
CONF
}
right=(--partition=gpu --gres=gpu:nvidia_a100-sxm4-80gb:8 --cpus-per-task=12 --exclusive)
