#!/usr/bin/env bash
# Links as `flotilla bench` measures them beside ucx_perftest (Debian: ucx-utils), in turns, on this machine: medians of the ratios. Issue 18
# allows 5 % for bandwidth of 1 MiB and more and 20 % for latency. For a machine that runs nothing else.
#
#   tests/benchmarks/fabric_benchmark.sh               build/ holds a Release build
#   ROUNDS=5 TRANSPORTS="tcp sm" tests/benchmarks/fabric_benchmark.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

command -v ucx_perftest >/dev/null || { echo "SKIPPED: ucx_perftest is not here; apt-get install ucx-utils"; exit 0; }
rounds=${ROUNDS:-5} transports=${TRANSPORTS:-tcp sm}
port=${PORT:-13337}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# ucx_perftest's last line: latency in microseconds, bandwidth in MiB/s ("Final:" iterations, typical, average, overall ...).
perftest() { # TRANSPORT TEST BYTES ITERATIONS COLUMN
  UCX_TLS=$1,self ucx_perftest -p "$port" >/dev/null 2>&1 &
  sleep 0.5
  UCX_TLS=$1,self ucx_perftest -p "$port" -t "$2" -s "$3" -n "$4" -w 100 127.0.0.1 2>/dev/null | awk -v column="$5" '/Final:/ {print $column}'
  wait
}

ours() { # TRANSPORT
  mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 build/src/app/flotilla bench --stages 1 --transports "$1,self" \
    --folder "$here/bench" --format json 2>/dev/null >"$here/links.json" || test $? -eq 1
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

for transport in $transports; do
  latencies="" bandwidths=""
  for _ in $(seq "$rounds"); do
    ours "$transport"
    theirs=$(perftest "$transport" tag_lat 8 20000 5)
    mine=$(field "$transport" 8 latency_seconds)
    latencies+=$(awk -v mine="$mine" -v theirs="$theirs" 'BEGIN {print 1e6 * mine / theirs}')$'\n'
    theirs=$(perftest "$transport" tag_bw 2097152 1000 7)
    mine=$(field "$transport" 2097152 stream_bytes_per_second)
    bandwidths+=$(awk -v mine="$mine" -v theirs="$theirs" 'BEGIN {print mine / 1048576 / theirs}')$'\n'
  done
  echo "$transport: ours / ucx_perftest, median of $rounds: latency of 8 B $(printf '%s' "$latencies" | median), bandwidth of 2 MiB $(printf '%s' "$bandwidths" | median)"
done
