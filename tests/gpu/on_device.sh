#!/usr/bin/env bash
# Runs a test on a GPU of this machine. Exit code 77, and why, where there is none or where what the command needs is missing (its 69).
#   on_device.sh COMMAND...
set -uo pipefail
list=$(nvidia-smi -L 2>/dev/null) && [[ $list == *GPU* ]] || { echo "SKIPPED: no GPU here: nvidia-smi is missing or lists none"; exit 77; }
code=0
"$@" || code=$?
[ "$code" != 69 ] || { echo "SKIPPED: something that it needs is not here"; exit 77; }
exit "$code"
