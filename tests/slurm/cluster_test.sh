#!/usr/bin/env bash
# The cluster comes up, does what its commands say, and goes without a trace. Arguments: a folder to use.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster="$here/cluster.sh $1"
"$here/cluster.sh" check || exit $?

# shellcheck source=tests/support/waiting.sh
. "$here/../support/waiting.sh"
state_is() { [ "$($cluster on head sinfo -h -n "$1" -o %t -p urgent)" = "$2" ]; }
reaches() { $cluster on n1 timeout 3 bash -c "exec 3<>/dev/tcp/$1/6818" 2>/dev/null; }

trap '$cluster down 2>/dev/null || true' EXIT
$cluster up
[ "$($cluster on n3 hostname)" = n3 ] || fail "a node has no name of its own"
[ "$($cluster on head srun -p urgent -N6 hostname | sort | tr '\n' ' ')" = "n1 n2 n3 n4 n5 n6 " ] || fail "a job does not run on six nodes"
until_true reaches n4 # nodes reach each other
$cluster cable n4 out
reaches n4 && fail "a pulled cable still carries"
$cluster cable n4 in
until_true reaches n4
$cluster crash n4
reaches n4 && fail "a crashed node still answers"
$cluster boot n4
until_true reaches n4 # a node that was booted again answers
$cluster controller
until_true state_is n1 idle
$cluster on n2 bash -c 'echo here > /dev/shm/flotilla-cluster-test; setsid sleep 1000 & '
[ -e /dev/shm/flotilla-cluster-test ] && fail "a node shares the machine's /dev/shm"
$cluster down
left=$("$here/cluster.sh" "$1" left)
[ -z "$left" ] || fail "left behind: $left"
