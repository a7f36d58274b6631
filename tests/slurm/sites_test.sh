#!/usr/bin/env bash
# flotilla submit at whole sites: sites_test.sh FLOTILLA SLURM_FOLDER [SITE...]; without names every site of tests/slurm/sites.
# slurmctld is started with each site's configuration, submit reads what it answers, and sbatch --test-only has to take the script.
# Exit code 77, with the reason, where Slurm cannot run. tests/slurm/README.md says how a site is written.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/support/waiting.sh
. "$here/../support/waiting.sh"
PATH=/usr/sbin:/usr/bin:/sbin:/bin
hosts=10.77.0.1 # of all nodes: see README.md

prepare() {
  mount --make-rprivate /
  hostname head
  printf '127.0.0.1 localhost\n%s head\n' $hosts >"$dir/hosts"
  mount --bind "$dir/hosts" /etc/hosts
  ip link set lo up
  ip link add eth0 type bridge
  ip addr add $hosts/16 dev eth0
  ip link set eth0 up
  (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
  munged --key-file="$dir/munge.key" --socket="$dir/munge.sock" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/seed"
  export SLURM_CONF=$dir/slurm.conf PATH=$dir/bin:$PATH
  mkdir "$dir/bin" "$dir/spool"
  # There is no accounting here: what a site's would answer is written with it. What it would refuse, its job_submit.lua does.
  printf '#!/bin/sh\ncase "$*" in *"show user"*) cat %s/accounts ;; *"show qos"*) cat %s/qos ;; esac\n' "$dir" "$dir" >"$dir/bin/sacctmgr"
  chmod +x "$dir/bin/sacctmgr"
  cat >"$dir/job.toml" <<TOML
[model]
name = "opt-350m"
[training]
global-batch = 1024
length = 1024
steps = 1000
[search]
alternatives = 0
tolerance = "30%"
[run]
directory = "run"
TOML
}

# What every site has, where its own lines do not say otherwise.
common_configuration() {
  cat <<CONF
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ClusterName=site
SlurmctldHost=head($hosts)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$dir/munge.sock
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
SlurmctldPort=6817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
MessageTimeout=60
TreeWidth=65533
NodeName=echo NodeAddr=$hosts Port=6900
NodeName=DEFAULT Port=6900
CONF
}

configuration() {
  local own line
  own=$(conf)
  while read -r line; do
    [[ $line == NodeName=* ]] || ! grep -q "^${line%%=*}=" <<<"$own" || continue
    echo "$line"
  done < <(common_configuration)
  sed "s/^NodeName=[^ ]*/& NodeAddr=$hosts/; s/\(DEFAULT\) NodeAddr=[^ ]*/\1/" <<<"$own"
}

# A node answers to be idle: that one slurmd answers for all is enough, for nothing is ever started on them.
answered() { ! sinfo -h -N -o '%T' | grep -q unknown || { scontrol reconfigure && false; }; }

# The nodes are asked at once by a controller that reads its configuration anew. What slurmctld refuses ends it.
serves() { scontrol reconfigure 2>/dev/null || grep -qs fatal "$dir/slurmctld.log"; }

up() {
  mkdir -p "$dir/state"
  truncate --size 0 "$dir/accounts" "$dir/qos"
  rm -f "$dir/job_submit.lua"
  configuration >"$SLURM_CONF"
  slurmd -N echo
  slurmctld -c
  wait_for serves || fail "$site: slurmctld does not answer"
  ! grep fatal "$dir/slurmctld.log" || fail "$site: slurmctld ends"
  wait_for answered || fail "$site: nodes do not answer"
  state
}

down() {
  kill "$(cat "$dir/slurmd.pid")" "$(cat "$dir/slurmctld.pid")"
  wait_for gone || fail "$site: slurmctld does not end"
  rm -rf "$dir/state" "$dir/run" "$dir/slurmctld.log"
}
gone() { [ ! -e "$dir/slurmctld.pid" ] && [ ! -e "$dir/slurmd.pid" ]; }

# A job of somebody else that is there already: it holds nodes, and runs nothing.
busy() { salloc --quiet --no-shell --immediate=60 "$@" || fail "$site: no room for salloc $*"; }

try_site() {
  local word start
  submit=() right=() says=()
  state() { :; }
  # shellcheck disable=SC1090
  . "$here/sites/$site.sh"
  up
  "$flotilla" submit job.toml --dry-run --submit.library "$library" "${submit[@]}" >said.log 2>&1 || fail "$site: submit: $(cat said.log)"
  sed -n '/^#!/,$p' said.log >script.sh
  sbatch --test-only script.sh >taken.log 2>&1 || fail "$site: sbatch: $(cat taken.log) $(grep '^#SBATCH' script.sh)"
  for word in "${right[@]}"; do grep -qx -- "#SBATCH $word" script.sh || fail "$site: no $word: $(cat said.log)"; done
  tr '\n' ' ' <said.log | sed 's/  */ /g' >words.log
  for word in "${says[@]}"; do grep -qF -- "$word" words.log || fail "$site: does not say '$word': $(cat said.log)"; done
  # What is free now begins now.
  start=$(sed -n 's/.*to start at \([^ ]*\) .*/\1/p' taken.log | head -n 1)
  [ -n "$start" ] || fail "$site: sbatch says no time: $(cat taken.log)"
  [ "${submit[*]/--submit.wait/}" != "${submit[*]}" ] || [ "$(date -d "$start" +%s)" -le $(($(date +%s) + 60)) ] || fail "$site: starts at $start: $(cat taken.log script.sh)"
  down
  echo "$site: $(sed -n '/partition/,$s/^#SBATCH //p' script.sh | tr '\n' ' ')"
}

if [ "${1-}" != --inside ]; then
  why=$("$here/cluster.sh" check) || { echo "$why" && exit 77; }
  dir=$(mktemp -d /tmp/flotilla-sites-XXXXXX)
  trap 'rm -rf "$dir"' EXIT
  chmod 755 "$dir"
  unshare --kill-child --net --uts --ipc --pid --mount --fork --mount-proc "$0" --inside "$dir" "$@"
  exit
fi
dir=$2 flotilla=$3 library=$4/flotilla.sh
shift 4
cd "$dir"
prepare
[ $# -gt 0 ] || set -- "$here"/sites/*.sh
for site in "$@"; do
  site=$(basename "$site" .sh)
  try_site
done
