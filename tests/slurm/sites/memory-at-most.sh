# shellcheck shell=bash disable=SC2034
# Memory is given out, no default is set, and one job may have less than a node has: Slurm refuses who asks for all.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
EnforcePartLimits=ALL
NodeName=g[01-04] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:h100:4
PartitionName=gpu Nodes=g[01-04] Default=YES MaxTime=1-00:00:00 MaxMemPerNode=400000
CONF
}
right=(--gres=gpu:h100:4 --mem=400000M)
