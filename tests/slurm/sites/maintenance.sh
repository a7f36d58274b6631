# shellcheck shell=bash disable=SC2034
# Maintenance of half of the nodes in an hour, and two that are kept for a course now.
conf() {
  cat <<'CONF'
NodeName=g[1-8] Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a40:4
PartitionName=gpu Nodes=g[1-8] Default=YES MaxTime=2-00:00:00
CONF
}
state() {
  scontrol create reservation reservationname=maint starttime=now+1hour duration=120 nodes=g[5-8] flags=maint users=root >/dev/null
  scontrol create reservation reservationname=course starttime=now duration=300 nodes=g[1-2] users=nobody >/dev/null
}
submit=(--submit.time=2h)
right=(--partition=gpu --gres=gpu:a40:4)
says=("6 free nodes are kept for a reservation (course, maint)")
