#!/usr/bin/env bash
# What `flotilla bench` measures beside other people's tools, in turns, on this machine: links beside ucx_perftest (Debian: ucx-utils) in
# shared memory, over tcp, and over links shaped to 20 and 200 Mbit/s (root: a network namespace of its own, tc tbf); then matrix products
# beside oneDNN's primitive and memory bandwidth beside STREAM (node_ratios). Medians of ours / theirs. Issue 18 allows 20 % for latency,
# 5 % for bandwidth of 1 MiB and more. For a machine that runs nothing else.
#
#   tests/benchmarks/fabric_benchmark.sh               build/ holds a Release build
#   ROUNDS=5 TRANSPORTS="sm tcp" RATES="20mbit 200mbit" BUILD=build tests/benchmarks/fabric_benchmark.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rounds=${ROUNDS:-5} transports=${TRANSPORTS-"sm tcp"} rates=${RATES-"20mbit 200mbit"} build=${BUILD:-build}
port=${PORT:-13337}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# ucx_perftest's last line: latency in microseconds, bandwidth in MiB/s ("Final:" iterations, typical, average, overall ...). Column 3 of a
# latency test is the median.
perftest() { # TRANSPORT TEST BYTES ITERATIONS COLUMN
  UCX_TLS=$1,self ucx_perftest -p "$port" >/dev/null 2>&1 &
  sleep 0.5
  UCX_TLS=$1,self ucx_perftest -p "$port" -t "$2" -s "$3" -n "$4" -w "$(($4 / 10 + 1))" 127.0.0.1 2>/dev/null | awk -v column="$5" '/Final:/ {print $column}'
  wait
}

ours() { # TRANSPORT BUDGET
  mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$build/src/app/flotilla" bench --stages 1 --transports "$1,self" --budget "$2" \
    --folder "$here/bench" --format json 2>"$here/errors" >"$here/links.json" || test $? -eq 1 || { cat "$here/errors" >&2; exit 1; }
}

# A field of the link's point of so many bytes.
field() { # TRANSPORT BYTES KEY
  python3 - "$here/links.json" "$1,self" "$2" "$3" <<'PYTHON'
import json, sys
path, transport, size, key = sys.argv[1:]
for link in json.load(open(path))["report"]["links"]:
    if link["alone"] and link["transport"] == transport:
        for point in link["points"]:
            if point["bytes"] == int(size):
                print(point[key])
PYTHON
}

# Name, transport, our budget, size and messages of the bandwidth, round trips of the latency.
compare() {
  local name=$1 transport=$2 budget=$3 bytes=$4 messages=$5 trips=$6 latencies="" bandwidths="" theirs mine
  for _ in $(seq "$rounds"); do
    ours "$transport" "$budget"
    theirs=$(perftest "$transport" tag_lat 8 "$trips" 3)
    mine=$(field "$transport" 8 latency_seconds)
    latencies+=$(awk -v mine="$mine" -v theirs="$theirs" 'BEGIN {print 1e6 * mine / theirs}')$'\n'
    theirs=$(perftest "$transport" tag_bw "$bytes" "$messages" 7)
    mine=$(field "$transport" "$bytes" stream_bytes_per_second)
    bandwidths+=$(awk -v mine="$mine" -v theirs="$theirs" 'BEGIN {print mine / 1048576 / theirs}')$'\n'
  done
  printf '%-16s latency of 8 B %6.3f (1 within 20 %%)   bandwidth of %d MiB %6.3f (1 within 5 %%)\n' "$name" "$(printf '%s' "$latencies" | median)" \
    "$((bytes / 1048576))" "$(printf '%s' "$bandwidths" | median)"
}

# In a namespace whose only link, shaped, is the loopback.
if [ "${1-}" = --shaped ]; then
  ip link set lo mtu 1500 up
  tc qdisc add dev lo root tbf rate "$2" burst 64kb latency 50ms
  compare "tcp at $2" tcp 200s 1048576 "${MESSAGES:-20}" 2000
  exit 0
fi

echo "ours / theirs, medians of $rounds"
if command -v ucx_perftest >/dev/null; then
  for transport in $transports; do compare "$transport" "$transport" 20s 2097152 1000 20000; done
  for rate in $rates; do
    if unshare --net true 2>/dev/null; then
      unshare --net bash "tests/benchmarks/$(basename "${BASH_SOURCE[0]}")" --shaped "$rate"
    else
      echo "SKIPPED: tcp at $rate: a network namespace needs root"
    fi
  done
else
  echo "SKIPPED: links: ucx_perftest is not here; apt-get install ucx-utils"
fi
"$build/tests/benchmarks/node_ratios" --rounds "$rounds"
