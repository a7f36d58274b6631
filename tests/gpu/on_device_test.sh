#!/usr/bin/env bash
# on_device.sh passes exit codes on, says where there is no GPU, and runs the layers where there is one: here, the stand-in's.
#   on_device_test.sh FOLDER COMMAND...
set -euo pipefail
on_device=$1/on_device.sh
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "on_device_test: $*" >&2 && exit 1; }
# ended CODE NVIDIA_SMI COMMAND...: the exit code of on_device.sh with this nvidia-smi.
ended() {
  local expected=$1 code=0
  printf '#!/bin/sh\n%s\n' "$2" >"$scratch/nvidia-smi"
  chmod +x "$scratch/nvidia-smi"
  PATH=$scratch:$PATH "$on_device" "${@:3}" >"$scratch/said" 2>&1 || code=$?
  [ "$code" = "$expected" ] || { cat "$scratch/said" && fail "$* ended with $code"; }
}

ended 77 "exit 9" true
grep -q "^SKIPPED: no GPU here" "$scratch/said" || fail "without a driver it says: $(cat "$scratch/said")"
ended 77 "echo No devices found" true
ended 77 "echo GPU 0: H100" sh -c "exit 69"
grep -q "^SKIPPED: something" "$scratch/said" || fail "of what is missing it says: $(cat "$scratch/said")"
ended 3 "echo GPU 0: H100" sh -c "exit 3"
ended 0 "echo GPU 0: H100" "$@"
cat "$scratch/said"
