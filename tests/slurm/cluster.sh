#!/usr/bin/env bash
# A Slurm cluster of six nodes inside namespaces of this machine, for tests. Needs root. README.md beside this file says what it is like.
#
#   cluster.sh check                  says why a cluster cannot run here and ends with 77; 0 where it can
#   cluster.sh DIR up                 makes DIR and starts the cluster; DIR is what its nodes share. CLUSTER_CONF: a file of more lines for
#                                     slurm.conf, CLUSTER_LUA: a job_submit.lua
#   cluster.sh DIR down               ends all of it and removes DIR (KEEP=1 keeps it, with the logs)
#   cluster.sh DIR on NODE COMMAND... runs a command inside a node: head, n1 ... n6
#   cluster.sh DIR crash NODE...      power failure
#   cluster.sh DIR boot NODE...       power on again; returns when Slurm may use the nodes
#   cluster.sh DIR cable NODE in|out  pulls the network cable: unlike after a crash, peers hear nothing
#   cluster.sh DIR link NODE RATE     limits what a node sends and what it receives, as 30mbit
#   cluster.sh DIR controller         ends slurmctld and starts it again
#   cluster.sh DIR controller out|in  kill -9 of slurmctld; starts it again
#   cluster.sh DIR disk full|free     fills DIR/disk, a small file system of the nodes; makes room again
#   cluster.sh DIR disk readonly|writable   for the nodes, but for files that are open
#   cluster.sh DIR disk path          where DIR/disk is for processes outside
#   cluster.sh DIR left               lists what the cluster has left behind; nothing is left where it prints nothing
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
nodes="n1 n2 n3 n4 n5 n6"
groups=/sys/fs/cgroup/cpu
PATH=$PATH:/usr/sbin:/sbin

# shellcheck source=tests/support/waiting.sh
. "$here/../support/waiting.sh"

# Why a cluster cannot run here, or nothing.
why_not() {
  local tool
  [ "$(id -u)" -eq 0 ] || { echo "needs root"; return; }
  for tool in slurmctld slurmd munged srun ip tc unshare nsenter; do
    command -v "$tool" >/dev/null || { echo "$tool is missing (examples/debian_packages.sh: flotilla_slurm_packages)"; return; }
  done
  unshare --mount --pid --net --ipc --uts --fork true 2>/dev/null || { echo "namespaces may not be made here"; return; }
  [ -w "$groups/cpu.cfs_period_us" ] || [ -w "$groups/cgroup.procs" ] || { echo "no writable cpu controller of cgroup v1 at $groups"; return; }
  unshare --net ip link add probe0 type bridge 2>/dev/null || { echo "the kernel makes no network bridges here"; return; }
  # shellcheck disable=SC2016
  unshare --net sh -c 'ip link add veth0 type veth peer name veth1 && tc qdisc add dev veth0 root tbf rate 1mbit burst 32kb latency 50ms' 2>/dev/null ||
    echo "the kernel makes no limited network links here"
}

group_of() { echo "$groups/flotilla-$(basename "$1")"; }

# The room is the process whose end is the end of everything: pid 1 of a pid namespace that holds all nodes.
room() { cat "$dir/run/room" 2>/dev/null || fail "no cluster is up in $dir"; }
in_room() { nsenter -t "$(room)" -p -m -n --wd="$PWD" -- "$@"; }

on() {
  local node=$1
  shift
  in_room "$dir/bin/on" "$node" "$@"
}

idle() { # NODE...: all of them can run jobs
  local states
  states=$(on head sinfo -h -N -o '%N %t' 2>/dev/null) || return 1
  for node in "$@"; do grep -qx "$node idle" <<<"$states" || return 1; done
}

serves() { # SINCE NODE...: their daemons have started since then, and they run jobs or could
  local since=$1 node known
  shift
  for node in "$@"; do
    known=$(on head scontrol -o show node "$node" 2>/dev/null) || return 1
    [[ $known =~ SlurmdStartTime=([^ ]+) && ! ${BASH_REMATCH[1]} < $since ]] || return 1
    [[ $known =~ State=(IDLE|ALLOCATED|MIXED)[[:space:]] ]] || return 1
  done
}

write_configuration() {
  local i
  mkdir -p "$dir"/{bin,etc,run,log,state,dev,disk,etc/plugstack.d}
  for i in head $nodes; do mkdir -p "$dir/spool/$i" "$dir/tmp/$i"; done
  chmod 755 "$dir" "$dir/run"
  for i in 0 1 2 3; do mknod "$dir/dev/nvidia$i" c 1 3; done # clones of /dev/null: gres needs files
  for i in slurm.conf gres.conf plugstack.conf; do sed "s|@DIR@|$dir|g" "$here/cluster/$i" >"$dir/etc/$i"; done
  [ -z "${CLUSTER_LUA-}" ] || cp "$CLUSTER_LUA" "$dir/etc/job_submit.lua"
  [ -z "${CLUSTER_CONF-}" ] || sed "s|@DIR@|$dir|g" "$CLUSTER_CONF" >>"$dir/etc/slurm.conf"
  (umask 077 && head -c 1024 /dev/urandom >"$dir/etc/munge.key")
  cp "$here/cluster/room.sh" "$here/cluster/node.sh" "$here/cluster/boot" "$here/cluster/on" "$dir/bin/"
  printf '127.0.0.1 localhost\n10.77.0.1 head\n' >"$dir/etc/hosts"
  local zone=1 node
  for node in $nodes; do
    echo "10.77.$zone.${node#n} $node" >>"$dir/etc/hosts"
    [ $((${node#n} % 2)) -eq 1 ] || zone=$((zone + 1))
  done
}

# Unequal CPUs: percent of one, as quota. The quotas are meant to fit the machine together.
make_cpu_groups() {
  local group node percent share period
  read -ra percent <<<"${NODE_PERCENT:-40 40 30 30 20 20}"
  group=$(group_of "$dir")
  mkdir "$group"
  echo $((6 * 1024)) >"$group/cpu.shares" # six nodes count like six groups of the machine, not like one
  for node in $nodes; do
    mkdir "$group/$node"
    # The period is short, so that operations of a millisecond feel it; the kernel takes no quota below a millisecond.
    share=${percent[${node#n} - 1]} period=$((share < 20 ? 10000 : 5000))
    echo "$period" >"$group/$node/cpu.cfs_period_us"
    echo $((period * share / 100)) >"$group/$node/cpu.cfs_quota_us"
  done
}

up() {
  [ ! -e "$dir" ] || fail "$dir exists; take it down first: cluster.sh $dir down"
  [ ${#dir} -le 60 ] || fail "$dir is too long a name: sockets in it would have more than 108 characters"
  mkdir -p "$dir"
  write_configuration
  make_cpu_groups
  setsid unshare --mount --pid --net --fork --kill-child --mount-proc "$dir/bin/room.sh" "$dir" "$(group_of "$dir")" </dev/null >"$dir/log/room.log" 2>&1 &
  local guard=$! child=""
  wait_for started_in "$guard" || fail "the room did not start: $(cat "$dir/log/room.log")"
  echo "$child" >"$dir/run/room"
  wait_for test -S "$dir/run/munge.sock" || fail "munged did not start: see $dir/log"
  # shellcheck disable=SC2086
  wait_for idle $nodes || fail "the nodes are not idle: see $dir/log"
}

# Sets `child`: what unshare has started, once it is the room's script. (For a moment unshare has another child, a helper of its own.)
started_in() { # PID of unshare
  local candidate candidates
  read -ra candidates <"/proc/$1/task/$1/children" || true # has no line end
  for candidate in "${candidates[@]}"; do
    child=$candidate
    ! grep -qa '^/bin/bash' "/proc/$candidate/cmdline" 2>/dev/null || return 0
  done
  return 1
}

is_room() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF "$dir/bin/room.sh"; }

# A process by its number and the time of its start: numbers come again.
identity() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
is_gone() { [ "$(identity "$1")" != "$2" ]; }

down() {
  local pid group node began
  pid=$(cat "$dir/run/room" 2>/dev/null || true)
  if [ -n "$pid" ] && is_room "$pid"; then # the number may be another process's by now
    began=$(identity "$pid" || true)
    kill -9 "$pid"
    wait_for is_gone "$pid" "$began" || fail "the room does not end" # it goes after all the others in it
  fi
  group=$(group_of "$dir")
  for node in $nodes; do
    [ ! -d "$group/$node" ] || wait_for rmdir "$group/$node" 2>/dev/null || fail "$group/$node is still in use"
  done
  [ ! -d "$group" ] || rmdir "$group"
  [ "${KEEP:-0}" = 1 ] || rm -rf "$dir"
}

start_controller() {
  on head slurmctld
  wait_for on head sh -c "scontrol ping | grep -q UP" || fail "slurmctld did not come back"
}

stop_controller() { # SIGNAL
  on head sh -c "kill -$1 \$(cat $dir/run/slurmctld.pid)"
  wait_for bash -c "! '$0' '$dir' on head sh -c 'kill -0 \$(cat $dir/run/slurmctld.pid 2>/dev/null) 2>/dev/null'" || fail "slurmctld does not end"
}

# A second mount of the disk over the first is read-only: what is open keeps the first one. A node that was off has neither.
disk() { # full|free|readonly|writable|path
  local node
  case $1 in
    full) in_room dd if=/dev/zero of="$dir/disk/filler" bs=4k status=none 2>/dev/null || true ;;
    free) in_room rm -f "$dir/disk/filler" ;;
    readonly) for node in $nodes; do on "$node" sh -c "mount --bind $dir/disk $dir/disk && mount -o remount,bind,ro $dir/disk" || true; done ;;
    writable) for node in $nodes; do on "$node" sh -c "! findmnt -n -o OPTIONS $dir/disk | grep -q '^ro' || umount -l $dir/disk" || true; done ;;
    path) echo "/proc/$(room)/root$dir/disk" ;;
    *) fail "disk full|free|readonly|writable|path" ;;
  esac
}

left() {
  local process
  [ ! -d "$(group_of "$dir")" ] || echo "cgroup $(group_of "$dir")"
  for process in /proc/[0-9]*; do
    if grep -qzF "$dir/" "$process/environ" "$process/cmdline" 2>/dev/null && [ "${process#/proc/}" != $$ ]; then
      echo "process ${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)"
    fi
  done
  grep -F "$dir" /proc/self/mounts || true
  [ ! -e "$dir" ] || echo "folder $dir"
}

if [ "${1-}" = check ]; then
  reason=$(why_not)
  [ -z "$reason" ] && exit 0
  echo "SKIPPED: no Slurm cluster here: $reason"
  exit 77
fi
[ $# -ge 2 ] || fail "usage: cluster.sh check | cluster.sh DIR up|down|on|crash|boot|cable|link|controller|disk|left ..."
dir=$(realpath -m "$1")
command=$2
shift 2
case $command in
  up) up ;;
  down) down ;;
  on) on "$@" ;;
  crash) # over when the last process of the node has gone, which its first one waits for
    for node in "$@"; do
      in_room sh -c "pid=\$(cat $dir/run/init.$node) && kill -9 \$pid && while kill -0 \$pid 2>/dev/null; do sleep 0.02; done"
    done
    ;;
  boot) # a crash that Slurm has not noticed leaves a node to its job
    since=$(date +%FT%T)
    in_room "$dir/bin/boot" "$dir" "$(group_of "$dir")" "$@"
    wait_for serves "$since" "$@" || fail "$* not at work: see $dir/log"
    ;;
  cable) case ${2-} in in) in_room ip link set "v$1" up ;; out) in_room ip link set "v$1" down ;; *) fail "cable NODE in|out" ;; esac ;;
  link)
    [ $# -eq 2 ] || fail "link NODE RATE"
    in_room tc qdisc replace dev "v$1" root tbf rate "$2" burst 64kb latency 30ms
    on "$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 64kb latency 30ms
    ;;
  controller)
    [ "${1-}" = in ] || stop_controller "$([ "${1-}" = out ] && echo KILL || echo TERM)"
    [ "${1-}" = out ] || start_controller
    ;;
  disk) disk "${1-}" ;;
  left) left ;;
  *) fail "unknown command $command" ;;
esac
