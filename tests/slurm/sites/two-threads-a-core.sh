# shellcheck shell=bash disable=SC2034
# Two threads on each core, and jobs on half of the cores.
conf() {
  cat <<'CONF'
NodeName=g[1-4] Sockets=2 CoresPerSocket=20 ThreadsPerCore=2 RealMemory=384000 Gres=gpu:v100-sxm2-32gb:4
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00
CONF
}
state() { busy -N4 --ntasks-per-node=1 -c30 --gres=gpu:v100-sxm2-32gb:1; }
right=(--gres=gpu:v100-sxm2-32gb:2 --cpus-per-task=20)
