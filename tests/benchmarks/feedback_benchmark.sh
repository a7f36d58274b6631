#!/usr/bin/env bash
# Issue 19, item 6: does what a run's first iterations measure bring its forecast nearer? For some plans and profiles (as measured; operations
# x1.3 and x0.5; links at half their rate) two starts of one run: the first corrects the profile, the second is forecast by it. Prints
# forecast and measured of both, as paired medians of ROUNDS runs. On a quiet machine only: other work that
# lasts through a run is measured as the machine's speed.
#
#   tests/benchmarks/feedback_benchmark.sh            build/ holds a Release build with flotilla
#   ROUNDS=3 BUILD=build tests/benchmarks/feedback_benchmark.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(realpath "${BUILD:-build}") rounds=${ROUNDS:-3}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here"
head -c 400000 /dev/urandom | base64 -w 72 >text.txt

ranks() { mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$@"; }
train() { # RUN STEPS PROFILE OPTIONS...
  local run=$1 steps=$2 profile=$3
  shift 3
  ranks "$build/src/app/flotilla" train --model.name=gpt2-mini --training.length=128 --training.global-batch=16 --data.train=text.txt \
    --data.format=text --run.directory="$run" --run.threads=1 --checkpoint.every=25 --probe.file="$profile" --probe.budget=10s \
    --training.steps="$steps" "$@" >>log 2>&1 || { tail -20 log >&2; exit 1; }
}
scaled() { # operations, links: factors of their times
  python3 - "$1" "$2" <<'PYTHON'
import json, sys
operations, links = map(float, sys.argv[1:])
profile = json.load(open("measured.json"))
for row in profile["operation_times"]: row["time_s"] *= operations
for link in profile["links"]:
    for piece in link["pieces"] + link.get("sum_pieces", []):
        piece["latency_s"] *= links
        piece["bandwidth_bytes_per_s"] /= links
json.dump(profile, open("profile.json", "w"))
PYTHON
}

train probing 1 measured.json --plan.data=2 --plan.pipeline=1 --plan.tensor=1
for case in "as-measured 1 1" "operations-x1.3 1.3 1" "operations-x0.5 0.5 1" "half-link-rate 1 2" "both 0.7 2"; do
  read -r name operations links <<<"$case"
  scaled "$operations" "$links"
  for plan in "2 1 1" "1 2 1" "1 1 2"; do
    read -r data pipeline tensor <<<"$plan"
    for round in $(seq "$rounds"); do
      run="$name-$data$pipeline$tensor-$round"
      options=(--plan.data="$data" --plan.pipeline="$pipeline" --plan.tensor="$tensor")
      train "$run" 25 profile.json "${options[@]}"
      train "$run" 50 profile.json "${options[@]}"
    done
  done
done
python3 - <<'PYTHON'
import collections, glob, json, statistics
rows = collections.defaultdict(list)
for file in sorted(glob.glob("*/metrics.jsonl")):
    run = file.split("/")[0]
    if run == "probing": continue
    lines = [json.loads(line) for line in open(file)]
    forecasts = [l for l in lines if l.get("event") == "forecast"]
    corrections = [l for l in lines if l.get("event") == "correction" and l["incarnation"] == 1]
    error = lambda f: f["forecast_seconds"] / f["measured_seconds"] - 1
    wrong = ", ".join(sorted({f["figure"] for c in corrections for f in c["figures"]}))
    rows[run.rsplit("-", 1)[0]].append((error(forecasts[0]), error(forecasts[1]), wrong, bool(corrections and corrections[0]["file"])))
print(f"{'profile and plan (data, pipeline, tensor)':44} {'error before':>13} {'after':>8} {'used':>5}  wrong figures of the first run")
for name, found in rows.items():
    before, after = (100 * statistics.median(r[i] for r in found) for i in (0, 1))
    print(f"{name:44} {before:+12.1f}% {after:+7.1f}% {sum(r[3] for r in found)}/{len(found)}    {found[0][2]}")
for i, when in ((0, "before"), (1, "after")):
    print(when, "mean absolute error", f"{100 * statistics.mean(abs(r[i]) for f in rows.values() for r in f):.1f} %")
PYTHON
