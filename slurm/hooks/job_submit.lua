-- job_submit.lua: looks at jobs as they are submitted. Lies beside slurm.conf; slurm.conf: JobSubmitPlugins=lua
-- A run that is to come back must be requeueable and must keep its log. Jobs take part by their name: those that begin with "flotilla".
-- It never touches --comment. Lua 5.1's pattern: "-" is escaped by "%".

local function ours(job)
  return job.name ~= nil and string.sub(job.name, 1, 8) == "flotilla"
end

function slurm_job_submit(job, partitions, uid)
  if not ours(job) then
    return slurm.SUCCESS
  end
  if job.script ~= nil and string.find(job.script, "flotilla_chain", 1, true) == nil and job.requeue == 0 then
    slurm.log_user("flotilla: --no-requeue: this run will not come back after a lost node; leave it out")
  end
  -- What --signal says on the command line is not shown to this plugin (22.05): only the script can be looked at.
  if job.script ~= nil and string.find(job.script, "flotilla_job", 1, true) ~= nil and string.find(job.script, "--signal", 1, true) == nil then
    slurm.log_user("flotilla: the script has no #SBATCH --signal=B:USR2@SECONDS: unless the command line has, nothing warns it before the time limit")
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
