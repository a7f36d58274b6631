#!/usr/bin/env bash
# Hosts of a test's own on one machine: network and host-name namespaces joined by a bridge, for mpirun over an "rsh" of ours. Needs root.
#
#   nodes.sh up PREFIX N         hosts PREFIX0 (for mpirun) and PREFIX1 ... PREFIXN, N at most 9; 69 and a line where namespaces cannot be made
#   nodes.sh down PREFIX
#   nodes.sh link HOST down|up   the cable: packets vanish, nobody is told
#   nodes.sh slow HOST OTHER RATE|off    what HOST sends to OTHER goes no faster (tc's units: 20mbit)
#   nodes.sh on HOST COMMAND...  runs a command there; as plm_rsh_agent: nodes.sh-agent HOST COMMAND...
set -euo pipefail

address() { # of the N-th host
  echo "10.177.${subnet}.$(($1 + 1))/24"
}

up() {
  local prefix=$1 count=$2 i
  subnet=$(($$ % 250))
  { ip netns add "$prefix-switch" && ip netns exec "$prefix-switch" ip link add wire type bridge; } 2>/dev/null || {
    down "$prefix"
    echo "network namespaces cannot be made here"
    exit 69
  }
  ip netns exec "$prefix-switch" ip link set wire up
  for ((i = 0; i <= count; i++)); do
    ip netns add "$prefix$i"
    ip link add cable netns "$prefix$i" type veth peer name "to$i" netns "$prefix-switch"
    ip netns exec "$prefix-switch" ip link set "to$i" master wire up
    ip netns exec "$prefix$i" ip link set lo up
    ip netns exec "$prefix$i" ip link set cable up
    ip netns exec "$prefix$i" ip addr add "$(address "$i")" dev cable
  done
}

down() {
  ip netns list | awk -v prefix="$1" 'index($1, prefix) == 1 {print $1}' | while read -r name; do ip netns delete "$name"; done
}

slow() { # host, other, rate
  local to
  to=$(ip netns exec "$2" ip -4 -o addr show dev cable | awk '{sub("/.*", "", $4); print $4}')
  ip netns exec "$1" tc qdisc del dev cable root 2>/dev/null || true
  if [ "$3" = off ]; then return; fi
  ip netns exec "$1" tc qdisc add dev cable root handle 1: htb default 1
  ip netns exec "$1" tc class add dev cable parent 1: classid 1:1 htb rate 32gbit
  ip netns exec "$1" tc class add dev cable parent 1: classid 1:2 htb rate "$3"
  ip netns exec "$1" tc filter add dev cable parent 1: protocol ip prio 1 u32 match ip dst "$to" flowid 1:2
}

on() { # host, command
  local host=$1
  shift
  # shellcheck disable=SC2016  # for the inner shell to expand
  exec ip netns exec "$host" unshare --uts bash -c 'hostname "$0" && eval "$1"' "$host" "$*"
}

case ${1:-} in
  up) up "$2" "$3" ;;
  down) down "$2" ;;
  link) # from the switch's side, so that the host sees a cable and no answer
    ip netns exec "${2%[0-9]}-switch" ip link set "to${2: -1}" "$3" ;;
  slow) slow "$2" "$3" "$4" ;;
  on)
    shift
    on "$@" ;;
  *)
    sed -n '2,9p' "$0"
    exit 64 ;;
esac
