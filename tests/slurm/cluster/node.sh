#!/bin/bash
# node.sh DIR NODE: pid 1 of a node; ends when it is killed from outside.
dir=$1 node=$2
hostname "$node"
mount --make-rprivate /
# As booting does: Slurm's PMIx plugin starts no step whose folders a crash has left.
find "$dir/tmp/$node" -mindepth 1 -delete
find "$dir/spool/$node" -maxdepth 1 -name '*pmix.*' -exec rm -rf {} +
mount -t tmpfs -o size=1g tmpfs /dev/shm
# A /sys of our own shows our own network devices (UCX looks there); slurmd wants cgroups below it.
mkdir -p "$dir/spool/$node/cgroup"
mount --rbind /sys/fs/cgroup "$dir/spool/$node/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$dir/spool/$node/cgroup" /sys/fs/cgroup
umount -l "$dir/spool/$node/cgroup"
mount --bind "$dir/etc/hosts" /etc/hosts
cat /proc/sys/kernel/random/uuid >"$dir/run/boot_id.$node"
mount --bind "$dir/run/boot_id.$node" /proc/sys/kernel/random/boot_id
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip link set lo up
ip link set eth0 up
ip addr add "$(awk -v node="$node" '$2 == node {print $1}' "$dir/etc/hosts")/16" brd + dev eth0
[ "$node" = head ] || tc qdisc add dev eth0 root tbf rate "${NODE_LINK:-400mbit}" burst 64kb latency 30ms
export SLURM_CONF=$dir/etc/slurm.conf PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
if [ "$node" = head ]; then
  munged --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.sock" --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/run/munge.seed"
  slurmctld
else
  slurmd -N "$node"
fi
while :; do sleep 1000000 & wait $!; done
