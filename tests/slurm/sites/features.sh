# shellcheck shell=bash disable=SC2034
# Gres without types: the nodes' features say what they are, and the job must ask by feature.
conf() {
  cat <<'CONF'
NodeName=gv[01-04] Sockets=2 CoresPerSocket=16 RealMemory=192000 Gres=gpu:4 Feature=skylake,v100-32gb,ib
NodeName=ga[01-04] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:4 Feature=icelake,CPU_GEN:ICX,GPU_SKU:A100_SXM4_80GB,ib
PartitionName=gpu Nodes=gv[01-04],ga[01-04] Default=YES MaxTime=1-00:00:00
CONF
}
right=(--gres=gpu:4 --constraint=GPU_SKU:A100_SXM4_80GB)
