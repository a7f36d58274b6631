# shellcheck shell=bash disable=SC2034
# Who asks for more memory than a CPU may have is given more CPUs, which a busy node has not.
conf() {
  cat <<'CONF'
SelectTypeParameters=CR_Core_Memory
MaxMemPerCPU=4000
NodeName=g[01-04] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:h100:4
PartitionName=gpu Nodes=g[01-04] Default=YES MaxTime=1-00:00:00 DefCpuPerGPU=8
CONF
}
state() { busy -N4 --ntasks-per-node=1 -c32 --mem=100000 --gres=gpu:h100:1; }
right=(--gres=gpu:h100:3 --cpus-per-task=8 --mem=96000M)
