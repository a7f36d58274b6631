# shellcheck shell=bash disable=SC2034
# Two threads on each core, a limit of CPUs of a node, and jobs on two cores: a task of an odd number of CPUs would take one thread more.
conf() {
  cat <<'CONF'
NodeName=g[1-4] Sockets=2 CoresPerSocket=32 ThreadsPerCore=2 RealMemory=512000 Gres=gpu:h200:8
PartitionName=gpu Nodes=g[1-4] Default=YES MaxTime=1-00:00:00 MaxCPUsPerNode=120
CONF
}
state() { busy -N4 --ntasks-per-node=1 -c3; }
right=(--gres=gpu:h200:8 --cpus-per-task=14)
