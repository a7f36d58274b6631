#!/usr/bin/env bash
# Every kernel compiles for other architectures than the build's, within its budgets (budgets.sh).
#
#   architectures.sh SOURCE_DIR ARCHITECTURE...     75 80 86 89 90a 100 103 120
#
# nvcc takes a minute for each. Exit code 77 where there is no nvcc, or no cuobjdump for the last part.
set -euo pipefail
source=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
IFS=';'
said=$(cmake -G Ninja -S "$source/tests/gpu/kernels_build" -B "$scratch" -DKERNELS="$source/src/runtime/compute/cuda/kernels" \
  -DFLOTILLA_CUDA_ARCHITECTURES="$*" 2>&1) || { echo "$said"; exit 1; }
unset IFS
if [[ $said == *"No CUDA kernels"* ]]; then
  echo "SKIPPED: nvcc is not here"
  exit 77
fi
cmake --build "$scratch" -j "$(nproc)" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
for architecture; do
  [ -e "$scratch/kernels/sm_$architecture.cubin" ] || { echo "nvcc does not know sm_$architecture"; exit 1; }
done
here=$(dirname "${BASH_SOURCE[0]}")
"$here/budgets.sh" resources "$scratch/kernels"
"$here/budgets.sh" instructions "$scratch/kernels"
