#!/bin/bash
# room.sh DIR CGROUP: pid 1 of the cluster. Its network namespace is the switches; its end is the end of every node.
# The nodes share a small disk, too.
#   zone a: n1 n2   zone b: n3 n4   zone c: n5 n6   each zone on a switch with a limited uplink to the core; head on the core
dir=$1 group=$2
zone_uplink=${ZONE_UPLINK:-100mbit}
mount --make-rprivate /
mount -t tmpfs -o "size=${DISK_SIZE:-64m}" tmpfs "$dir/disk"
ip link set lo up
ip link add core type bridge
ip link set core up
for zone in a b c; do
  ip link add "z$zone" type bridge
  ip link add "up$zone" type veth peer name "down$zone"
  ip link set "up$zone" master "z$zone"
  ip link set "down$zone" master core
  for link in "z$zone" "up$zone" "down$zone"; do ip link set "$link" up; done
  for link in "up$zone" "down$zone"; do tc qdisc add dev "$link" root tbf rate "$zone_uplink" burst 64kb latency 50ms; done
done
"$dir/bin/boot" "$dir" "$group" head
until [ -S "$dir/run/munge.sock" ]; do sleep 0.05; done
"$dir/bin/boot" "$dir" "$group" n1 n2 n3 n4 n5 n6
while :; do sleep 1000000 & wait $!; done # bash as pid 1 also reaps orphans
