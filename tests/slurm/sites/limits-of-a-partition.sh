# shellcheck shell=bash disable=SC2034
# A partition lets a job have 2 to 4 nodes and half an hour; one that is closed, one that takes jobs of a reservation alone.
conf() {
  cat <<'CONF'
EnforcePartLimits=ALL
JobSubmitPlugins=require_timelimit
NodeName=g[1-9] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:quadro_rtx_6000:4
PartitionName=debug Nodes=g[1-9] Default=YES MinNodes=2 MaxNodes=4 MaxTime=30 DefaultTime=10
PartitionName=off Nodes=g[1-9] State=DOWN MaxTime=30
PartitionName=reserved Nodes=g[1-9] ReqResv=YES MaxTime=30
PartitionName=system Nodes=g[1-9] RootOnly=YES MaxTime=30
CONF
}
submit=(--submit.time=30min)
right=(--partition=debug --gres=gpu:quadro_rtx_6000:4 --time=30)
says=("partition off is left out" "partition reserved is left out" "partition system is left out")
