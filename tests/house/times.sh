#!/usr/bin/env bash
# Every line of tests/ that names a time is counted by file in times.txt, with what the time is there for. A new or changed one fails.
#
#   times.sh SOURCE            compares
#   times.sh SOURCE --print    prints the counts as they are
#
# Kinds: hang     ends what hangs: only hang_bound() of tests/support/waiting.hpp, or far above what a busy machine needs
#        expires  must pass for what the test shows; nothing that lives is judged by it
#        pace     between two looks, or what a stand-in or a peer takes on purpose
#        value    a figure of a calculation: no clock runs
set -euo pipefail
cd "$1"
export LC_ALL=C
here=tests/house
pattern='sleep_for|Seconds [a-z_]+\{[0-9]|sleep_until|usleep|nanosleep|wait_for\(lock|[Ss]econds\{ *[0-9.]|(duration|minutes|hours)(<double>)?[({] *[0-9.]|\<timeout [0-9]|\<sleep [0-9.]|(deadline|grace|silence|budget|mtbf|slack|wait|interval)=[0-9]|setTimeout'
count() {
  grep -rIcE "$pattern" tests --include=*.cpp --include=*.hpp --include=*.sh --include=*.py --include=*.cu --include=*.js |
    sed 's/:\([0-9]*\)$/ \1/' | grep -v ' 0$' | grep -v "^$here/times\.sh " | sort
}
if [ "${2-}" = --print ]; then count && exit; fi
wrong=$(comm -3 <(count) <(grep -v '^#' "$here/times.txt" | cut -d ' ' -f 1,2 | sort) | sed 's/^\t//' | cut -d ' ' -f 1 | sort -u)
[ -z "$wrong" ] || { for file in $wrong; do
  echo "$file: lines that name a time have changed (was $(grep "^$file " "$here/times.txt" | cut -d ' ' -f 2 || true)): wait for a condition" \
    "(tests/support/waiting.hpp), or write what the time is there for into $here/times.txt: hang, expires, pace or value"
done && exit 1; }
unknown=$(grep -vnE '^#|^[^ ]+ [0-9]+ (hang|expires|pace|value)(\+(hang|expires|pace|value))*$' "$here/times.txt" || true)
[ -z "$unknown" ] || { echo "$here/times.txt:$unknown: expected FILE COUNT hang|expires|pace|value; write one of these" && exit 1; }
