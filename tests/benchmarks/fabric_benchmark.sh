#!/usr/bin/env bash
# What `flotilla bench` measures beside other people's tools, in turns, on this machine: links (link_rates) beside ucx_perftest (Debian:
# ucx-utils) in shared memory, over tcp, and over links shaped to 20 and 200 Mbit/s (root: a network namespace of its own, tc tbf); then
# matrix products beside oneDNN's primitive and memory bandwidth beside STREAM (node_ratios). Medians of ours / theirs, and their range;
# "miss" where a median is not within the issue's bounds: 20 % for latency, 5 % for bandwidth of 1 MiB and more. About three minutes, on a
# machine that runs nothing else.
#
#   tests/benchmarks/fabric_benchmark.sh               build/ holds a Release build with link_rates and node_ratios
#   ROUNDS=5 TRANSPORTS="sm tcp" RATES="20mbit 200mbit" BUILD=build tests/benchmarks/fabric_benchmark.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rounds=${ROUNDS:-5} transports=${TRANSPORTS-"sm tcp"} rates=${RATES-"20mbit 200mbit"} build=${BUILD:-build}
port=${PORT:-13337}

# Median, least and greatest of a column, with a verdict.
summary() { # NAME WHAT ALLOWED
  sort -g | awk -v name="$1" -v what="$2" -v allowed="$3" '{v[NR] = $1}
    END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
          printf "%-14s %-20s %6.3f  (%.3f to %.3f; 1 within %g %%)  %s\n", name, what, m, v[1], v[NR], 100 * allowed,
                 (m >= 1 - allowed && m <= 1 + allowed ? "ok" : "miss") }'
}

# A number of ucx_perftest's last line ("Final:" iterations, median, average and overall latency in us, average and overall MiB/s ...).
# Its server listens on one port after the other, so that none waits for one that the last test left.
theirs() { # TRANSPORT TEST BYTES ITERATIONS COLUMN
  port=$((port + 1))
  UCX_TLS=$1,self timeout 120 ucx_perftest -p "$port" >/dev/null 2>&1 &
  local server=$! number=""
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.2
    number=$(UCX_TLS=$1,self timeout 120 ucx_perftest -p "$port" -t "$2" -s "$3" -n "$4" -w "$(($4 / 10 + 1))" 127.0.0.1 2>/dev/null |
      awk -v column="$5" '/Final:/ {print $column}') || true
    [ -z "$number" ] || break
  done
  wait "$server" || true
  [ -n "$number" ] || { echo "ucx_perftest $2 over $1 gave no number" >&2; exit 1; }
  echo "$number"
}

ours() { # TRANSPORT BYTES SLICE
  mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$build/tests/benchmarks/link_rates" "$1,self" "$2" "$3"
}

# Name, transport, our time slice, size and messages of the bandwidth, round trips of the latency.
compare() {
  local name=$1 transport=$2 slice=$3 bytes=$4 messages=$5 trips=$6 latencies="" bandwidths="" latency bandwidth
  for _ in $(seq "$rounds"); do
    read -r latency bandwidth < <(ours "$transport" "$bytes" "$slice")
    latencies+=$(awk -v mine="$latency" -v theirs="$(theirs "$transport" tag_lat 8 "$trips" 3)" 'BEGIN {print mine / theirs}')$'\n'
    bandwidths+=$(awk -v mine="$bandwidth" -v theirs="$(theirs "$transport" tag_bw "$bytes" "$messages" 7)" 'BEGIN {print mine / theirs}')$'\n'
  done
  printf '%s' "$latencies" | summary "$name" "latency, 8 B" 0.20
  printf '%s' "$bandwidths" | summary "$name" "bandwidth, $((bytes / 1048576)) MiB" 0.05
}

# In a namespace whose only link, shaped, is the loopback.
if [ "${1-}" = --shaped ]; then
  ip link set lo mtu 1500 up
  tc qdisc add dev lo root tbf rate "$2" burst 64kb latency 50ms
  compare "tcp at $2" tcp 1 1048576 "$([ "$2" = 20mbit ] && echo 8 || echo 40)" 2000
  exit 0
fi

echo "ours / theirs, medians of $rounds"
if command -v ucx_perftest >/dev/null; then
  for transport in $transports; do compare "$transport" "$transport" 0.1 2097152 1000 20000; done
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
