# shellcheck shell=bash disable=SC2034
# Of ten nodes one is drained, one down, one failing, one draining under its job.
conf() {
  cat <<'CONF'
ReturnToService=1
NodeName=gpu-[001-010] Sockets=1 CoresPerSocket=64 RealMemory=512000 Gres=gpu:tesla_v100-sxm2-16gb:4
PartitionName=gpu Nodes=gpu-[001-010] Default=YES MaxTime=1-00:00:00
CONF
}
state() {
  busy -w gpu-004 -n1
  scontrol update nodename=gpu-001,gpu-004 state=drain reason="disk full"
  scontrol update nodename=gpu-002 state=down reason=test
  scontrol update nodename=gpu-003 state=fail reason=test
}
right=(--gres=gpu:tesla_v100-sxm2-16gb:4 --cpus-per-task=16 --exclusive)
says=("4 nodes are down, drained, reserved or failing")
