# shellcheck shell=bash disable=SC2034
# Nodes that a provider starts for a job: asleep until then, some of them starting.
conf() {
  cat <<'CONF'
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=600
ResumeTimeout=1800
PrivateData=cloud
NodeName=p4d-dy-[1-8] CPUs=96 RealMemory=1100000 Gres=gpu:a100:8 Feature=p4d,a100,40gb State=CLOUD
NodeName=g5-dy-[1-8] CPUs=48 RealMemory=180000 Gres=gpu:a10g:4 Feature=g5 State=CLOUD
PartitionName=p4d Nodes=p4d-dy-[1-8] Default=YES MaxTime=UNLIMITED
PartitionName=g5 Nodes=g5-dy-[1-8] MaxTime=UNLIMITED
CONF
}
state() {
  sbatch --quiet -p p4d -N3 --exclusive --output=/dev/null --wrap=true
  wait_for starting
}
starting() { [ "$(sinfo -h -p p4d -t alloc -o %D)" = 3 ]; }
right=(--partition=p4d --gres=gpu:a100:8)
