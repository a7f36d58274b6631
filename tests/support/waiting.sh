# shellcheck shell=bash
# Sourced by tests that are scripts: how they fail, and how they wait. A test that has logs to show defines show_logs.

# What a bug may let hang is given up after so many seconds: as hang_bound() of waiting.hpp.
hang_bound=1800

# fail WORDS...: one line, named after the test, and the end.
fail() {
  echo "$(basename "$0"): $*" >&2
  if declare -F show_logs >/dev/null; then show_logs >&2; fi
  exit 1
}

# wait_for COMMAND...: whether the command succeeds in the end; tried five times a second.
wait_for() {
  local end=$((SECONDS + hang_bound))
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

# until_true COMMAND...: fails where the command does not succeed.
until_true() { wait_for "$@" || fail "waited in vain for: $*"; }
