# shellcheck shell=bash disable=SC2034
# A partition of another group, a QOS that lets a job have 8 GPUs, and a site that refuses what has no account, time or QOS.
conf() {
  cat <<'CONF'
JobSubmitPlugins=lua
NodeName=g[1-6] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100-80gb:4
NodeName=h[1-2] Sockets=2 CoresPerSocket=48 RealMemory=1031000 Gres=gpu:h100:8
PartitionName=gpu Nodes=g[1-6] Default=YES MaxTime=2-00:00:00 AllowQos=normal,long
PartitionName=pi-a Nodes=h[1-2] MaxTime=7-00:00:00 AllowAccounts=pi-a
CONF
  echo 'physics|physics||normal|gres/gpu=8,node=4|1-00:00:00||gres/gpu=24' >accounts
  printf 'normal|||gres/gpu=16|\nlong|gres/gpu=4|7-00:00:00||\n' >qos
  cat >job_submit.lua <<'LUA'
function slurm_job_submit(job, parts, uid)
  local gpus = tonumber((job.tres_per_node or ""):match(":(%d+)$") or "0")
  if job.account == nil then slurm.log_user("no account") return slurm.ERROR end
  if job.time_limit == slurm.NO_VAL then slurm.log_user("no time limit") return slurm.ERROR end
  if job.partition == "pi-a" then slurm.log_user("not your partition") return slurm.ERROR end
  if gpus == 0 then slurm.log_user("no GPU") return slurm.ERROR end
  if gpus * job.max_nodes > 8 then slurm.log_user("more than 8 GPUs") return slurm.ERROR end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, parts, uid) return slurm.SUCCESS end
return slurm.SUCCESS
LUA
}
submit=(--submit.account=physics --submit.time=8h)
right=(--partition=gpu --gres=gpu:a100-80gb:4 --account=physics --time=480)
says=("partition pi-a is left out: account 'physics' is not in its AllowAccounts")
