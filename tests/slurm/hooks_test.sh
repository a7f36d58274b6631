#!/usr/bin/env bash
# slurm/hooks on a real Slurm, each doing what it says. Arguments: a folder for a cluster, the folder slurm/hooks.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster="$here/cluster.sh $1"
dir=$1 hooks=$2
"$here/cluster.sh" check || exit $?

# shellcheck source=tests/support/waiting.sh
. "$here/../support/waiting.sh"
# A hook as the site would install it, with settings for this cluster: everything here is root's.
install_hook() { printf '#!/bin/bash\nexport SLURM_CONF=%s/etc/slurm.conf PATH=/usr/sbin:/usr/bin:/sbin:/bin %s\nexec %s/%s\n' "$dir" "$2" "$hooks" "$1" >"$work/$1" && chmod +x "$work/$1"; }

work=$(mktemp -d)
trap '$cluster down 2>/dev/null || true; rm -rf "$work"' EXIT
install_hook prolog.sh FLOTILLA_SHM_PERCENT=2
install_hook epilog.sh FLOTILLA_CLEAN_ROOT=yes
install_hook epilog_slurmctld.sh FLOTILLA_RELEASE_AFTER=2
printf 'Prolog=%s/prolog.sh\nEpilog=%s/epilog.sh\nEpilogSlurmctld=%s/epilog_slurmctld.sh\n' "$work" "$work" "$work" >"$work/more.conf"
lua=no
if ls /usr/lib/*/slurm*/job_submit_lua.so >/dev/null 2>&1; then
  lua=yes
  echo 'JobSubmitPlugins=lua' >>"$work/more.conf"
fi
CLUSTER_LUA=$hooks/job_submit.lua CLUSTER_CONF=$work/more.conf $cluster up
head() { $cluster on head "$@"; }

# epilog.sh: what a killed rank leaves is removed, what others own is not.
head srun -p cpu -w n5 bash -c 'touch /dev/shm/vader_segment.n5.0 /dev/shm/ucx_shm_posix_1 /dev/shm/of-somebody-else'
gone() { [ "$($cluster on n5 ls /dev/shm)" = of-somebody-else ]; }
until_true gone

# What killed steps leave of PMIx goes with the job; that of a job which runs here stays.
spool=$dir/spool/n5
other=$(head sbatch --parsable -p cpu -N1 -n1 -o /dev/null -w n5 --wrap 'sleep 600')
until_true eval "head squeue -h -j $other -o %t | grep -qx R"
mkdir "$spool/pmix.77.0" "$spool/pmix.$other.0"
touch "$spool/stepd.slurm.pmix.77.0" "$spool/stepd.slurm.pmix.$other.0"
head srun -p cpu -n1 --overcommit --oversubscribe --mem=1 -w n5 true
until_true eval "! ls '$spool' | grep -q 'pmix\.77\.'"
[ "$(ls "$spool" | grep -c "pmix\.$other\.")" = 2 ] || fail "epilog.sh has removed what a running job needs"
head scancel "$other"
until_true eval "! ls '$spool' | grep -q 'pmix\.$other\.'"
until_true eval '[ -z "$(head squeue -h -w n5)" ]' # its epilog.sh is at an end, and so removes nothing of what follows

# Where squeue gives no answer, epilog.sh does not know what runs here, and removes nothing.
mkdir "$work/failing"
printf '#!/bin/bash\nexit 1\n' >"$work/failing/squeue" && chmod +x "$work/failing/squeue"
mkdir -p "$work/node-tmp/flotilla-0-7" && touch "$work/node-tmp/"{flotilla-7.AbCd0123,flotilla-0-7.AbCd0123,flotilla-7.short,flotilla-notes}
clean() { $cluster on n5 env TMPDIR="$work/node-tmp" PATH="$1:/usr/bin:/bin" SLURM_JOB_UID=0 SLURM_JOB_ID=1 SLURMD_NODENAME=n5 FLOTILLA_CLEAN_ROOT=yes "$hooks/epilog.sh"; }
$cluster on n5 touch /dev/shm/vader_segment.n5.1
clean "$work/failing"
gone && fail "epilog.sh has removed files without knowing whose"
clean /usr/bin
gone || fail "epilog.sh has removed nothing"
# So do what a killed rank and a killed batch script leave in /tmp.
[ "$(ls "$work/node-tmp" | xargs)" = "flotilla-7.short flotilla-notes" ] || fail "epilog.sh has left: $(ls "$work/node-tmp" | xargs)"

# prolog.sh: a node with a full /dev/shm is drained.
$cluster on n5 dd if=/dev/zero of=/dev/shm/full bs=1M count=40 status=none
# Slurm holds that job ("launch failed requeued held"); epilog_slurmctld.sh releases it, and it runs when it can.
job=$(head sbatch --parsable -J flotilla -p cpu -N1 --requeue -o /dev/null -w n5 --wrap true)
drained() { head sinfo -h -n n5 -p cpu -o %t | grep -q drain; }
until_true drained
held() { head scontrol show job "$job" | grep -q 'Reason=launch_failed_requeued_held'; }
until_true held
released() { ! held; }
until_true released
$cluster on n5 rm /dev/shm/full
head scontrol update nodename=n5 state=resume
done_at_last() { head scontrol update jobid="$job" StartTime=now 2>/dev/null || true; [ "$(head squeue -h -t all -j "$job" -o %t)" = CD ]; }
until_true done_at_last

# epilog_slurmctld.sh: a requeued job that asks for more nodes than are left asks for those that are left.
printf '#!/bin/bash\nsleep 600\n' >"$work/job.sh"
idle() { [ "$(head sinfo -h -n n5,n6 -p cpu -o %t | sort -u)" = idle ]; }
until_true idle
job=$(head sbatch --parsable -J flotilla -p cpu -N2 --requeue -o /dev/null "$work/job.sh")
running() { [ "$(head squeue -h -j "$job" -o %t)" = R ]; }
until_true running
$cluster crash n6
held() { [ "$(head squeue -h -j "$job" -o '%t %r %N')" = "PD BeginTime " ]; }
until_true held
starts() { # what Slurm does by itself after two minutes
  head scontrol update jobid="$job" StartTime=now 2>/dev/null || true
  sleep 2
  [ "$(head squeue -h -j "$job" -o '%t %N')" = "R n5" ]
}
until_true starts
head scancel "$job"

# job_submit.lua: says what is missing, to those whom it concerns.
if [ "$lua" = yes ]; then
  printf '#!/bin/bash\n. flotilla.sh\nflotilla_job train\n' >"$work/job.sh"
  said=$(head sbatch -H -J flotilla -o /dev/null "$work/job.sh" 2>&1)
  grep -q 'no #SBATCH --signal=B:USR2' <<<"$said" || fail "job_submit.lua said nothing: $said"
  sed -i '2i#SBATCH --signal=B:USR2@60' "$work/job.sh"
  said=$(head sbatch -H -J flotilla -o /dev/null "$work/job.sh" 2>&1)
  ! grep -q 'flotilla:' <<<"$said" || fail "job_submit.lua complained of a good job: $said"
  said=$(head sbatch -H -J other --no-requeue -o /dev/null "$work/job.sh" 2>&1)
  ! grep -q 'flotilla:' <<<"$said" || fail "job_submit.lua spoke to others: $said"
  said=$(head sbatch -H -J flotilla --no-requeue -o /dev/null "$work/job.sh" 2>&1)
  grep -q 'no-requeue' <<<"$said" || fail "job_submit.lua let --no-requeue pass: $said"
else
  echo "job_submit.lua was not tried: this Slurm has no job_submit/lua plugin"
fi
