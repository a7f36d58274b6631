# shellcheck shell=bash disable=SC2034
# The same nodes in partitions of three prices and priorities; the dearest thing of a node is billed alone.
conf() {
  cat <<'CONF'
PriorityType=priority/multifactor
PriorityFlags=MAX_TRES
PriorityDecayHalfLife=0
PriorityUsageResetPeriod=MONTHLY
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=g[1-6] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100-80:4
NodeName=c[1-4] Sockets=2 CoresPerSocket=64 RealMemory=256000
PartitionName=DEFAULT MaxTime=1-00:00:00
PartitionName=cpu Nodes=c[1-4] Default=YES TRESBillingWeights=CPU=1.0
PartitionName=short Nodes=g[1-6] MaxTime=1:00:00 PriorityTier=2 PreemptMode=off TRESBillingWeights=CPU=1.0
PartitionName=normal Nodes=g[1-6] PriorityTier=1 TRESBillingWeights=CPU=1.0
PartitionName=urgent Nodes=g[1-6] PriorityTier=9 PreemptMode=off TRESBillingWeights=CPU=4.0,Mem=0.5G
CONF
}
submit=(--submit.time=4h)
right=(--partition=normal --gres=gpu:a100-80:4 --time=240)
says=("partition short is left out: its time limit is 60.0 min")
