# shellcheck shell=bash
# Sourced by the tests that run on a real Slurm: how they fail, and how they wait. A test that has logs to show defines show_logs.

# fail WORDS...: one line, named after the test, and the end.
fail() {
  echo "$(basename "$0"): $*" >&2
  if declare -F show_logs >/dev/null; then show_logs >&2; fi
  exit 1
}

# wait_for SECONDS COMMAND...: whether the command succeeds in that time; tried five times a second.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

# until_true COMMAND...: fails where the command does not succeed in five minutes.
until_true() { wait_for 300 "$@" || fail "waited in vain for: $*"; }
