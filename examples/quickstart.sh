#!/usr/bin/env bash
# From a fresh Debian 12 machine to a training run that is killed and comes back on another number of ranks.
#
#   examples/quickstart.sh            install what is missing, build in build/, train (two to three minutes on two cores)
#
# The run's directory is runs/quickstart; it is made anew each time. Exit code: the last run's; 69 when something is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/launch.sh

run=runs/quickstart
first_ranks=2 later_ranks=3 kill_after_step=60

# Call it in a subshell.
train_on() {
  local ranks=$1
  shift
  flotilla_on "$ranks" train examples/quickstart.toml "${texts[@]}" --run.directory "$run" --run.log-every 20 "$@"
}

steps_done() {
  cat "$run/metrics.jsonl" 2>/dev/null | grep -vc '"event"' || true
}

# kill -9 of one rank, as a node failure would have it, once the run has committed a checkpoint and gone on from it.
kill_a_rank_after() {
  local step=$1 launcher=$2 victim
  until [ "$(steps_done)" -ge "$step" ]; do
    kill -0 "$launcher" 2>/dev/null || return 0
    sleep 0.2
  done
  victim=$(pgrep -P "$launcher" -x flotilla | tail -1) || return 0 # over already
  echo
  echo ">>> kill -9 of one of the $first_ranks ranks (process $victim) after step $(steps_done)"
  kill -9 "$victim" || true
}

curve() {
  echo "The loss curve, every 20 steps (incarnation in brackets; repeated steps show the later one):"
  awk -F'[:,]' '/"loss"/ && !/"event"/ {
      for (i = 1; i < NF; i += 2) { gsub(/[{"} ]/, "", $i); value[$i] = $(i + 1) }
      gsub(/[} ]/, "", value["incarnation"])
      step = value["step"] + 0; loss[step] = value["loss"]; who[step] = value["incarnation"]; if (step > last) last = step
    }
    END { for (s = 20; s <= last; s += 20) if (s in loss) {
      bar = ""; for (b = 0; b < loss[s] * 10; ++b) bar = bar "#"
      printf "  step %4d  [%s]  %.4f  %s\n", s, who[s], loss[s], bar } }' "$run/metrics.jsonl"
}

build_flotilla
mapfile -t texts < <(plain_texts | sed 's/^/--data.train=/')
rm -rf "$run"
mkdir -p "$run"

echo
echo ">>> training on $first_ranks ranks"
(train_on "$first_ranks") &
launcher=$!
kill_a_rank_after "$kill_after_step" "$launcher"
code=0
wait "$launcher" || code=$?
echo ">>> that run ended with exit code $code"

echo
echo ">>> the same command on $later_ranks ranks: it resumes from the last committed checkpoint"
code=0
(train_on "$later_ranks") || code=$?
echo ">>> that run ended with exit code $code"
echo
curve
exit "$code"
