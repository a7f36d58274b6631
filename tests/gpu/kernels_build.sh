#!/usr/bin/env bash
# The build with nvcc and without it, and what the program then says. The part that needs nvcc says SKIPPED where there is none.
#   kernels_build.sh SOURCE_DIR
set -euo pipefail
source=$1/tests/gpu/kernels_build
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "kernels_build: $*" >&2 && exit 1; }
# configure NAME OPTIONS...: what CMake says; its exit code.
configure() { cmake -G Ninja -S "$source" -B "$scratch/$1" "${@:2}" 2>&1; }
# told NAME COMPUTE_CAPABILITY DRIVER: what the built program says.
told() { cmake --build "$scratch/$1" >/dev/null && "$scratch/$1/say" "$2" "$3"; }

configure off -DFLOTILLA_CUDA=OFF >/dev/null || fail "OFF does not configure"
told off 90 13000 | grep -q "^none: built without nvcc$" || fail "a build without kernels does not say so"
"$scratch/off/say" 90 13000 | grep -q "configure it where nvcc is found" || fail "and not what to do"

printf '#!/bin/sh\necho "Cuda compilation tools, release 11.8, V11.8.89"\n' >"$scratch/nvcc"
chmod +x "$scratch/nvcc"
said=$(configure old -DFLOTILLA_NVCC="$scratch/nvcc") || fail "AUTO with an old toolkit does not configure"
[[ $said == *"No CUDA kernels:"*"11.8, and 12.0 is needed"* ]] || fail "AUTO with an old toolkit says: $said"
said=$(configure on -DFLOTILLA_CUDA=ON -DFLOTILLA_NVCC="$scratch/nvcc") && fail "ON goes without"
[[ $said == *"FLOTILLA_CUDA is ON, but"* ]] || fail "ON with an old toolkit says: $said"

said=$(configure auto "-DFLOTILLA_CUDA_ARCHITECTURES=75;90a;20")
if [[ $said == *"No CUDA kernels"* ]]; then
  echo "SKIPPED in part: nvcc is not here"
  exit 0
fi
told auto 90 13000 | grep -qE '^CUDA [0-9.]+: sm_75, sm_90a, compute_90$' || fail "kernels for 75 and 90a: $(told auto 90 13000)"
"$scratch/auto/say" 80 13000 | grep -q "none for sm_80: configure it with -DFLOTILLA_CUDA_ARCHITECTURES=80" || fail "no word of sm_80"
"$scratch/auto/say" 90 11000 | grep -q "update the driver" || fail "no word of an old driver"
