# shellcheck shell=bash disable=SC2034
# Some cards are cut into slices (MIG): the whole ones beside them are asked for.
conf() {
  cat <<'CONF'
NodeName=g[1-2] Sockets=2 CoresPerSocket=28 RealMemory=1031000 Gres=gpu:nvidia_h100_80gb_hbm3:4,gpu:nvidia_h100_80gb_hbm3_1g.10gb:14,gpu:nvidia_h100_80gb_hbm3_3g.40gb:4
NodeName=g[3-4] Sockets=2 CoresPerSocket=28 RealMemory=1031000 Gres=gpu:nvidia_h100_80gb_hbm3_1g.10gb:56
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
CONF
}
right=(--gres=gpu:nvidia_h100_80gb_hbm3:4 --cpus-per-task=14)
says=("56 'gpu:nvidia_h100_80gb_hbm3_1g.10gb' of a node are slices")
