# shellcheck shell=bash disable=SC2034
# Slurm gives whole sockets; a job has one of each node.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Socket_Memory
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100-80gb:4
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00 DefMemPerCPU=4000
CONF
}
state() { busy -N4 --ntasks-per-node=1 -c8; }
right=(--gres=gpu:a100-80gb:2 --cpus-per-task=16)
