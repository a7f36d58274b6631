#!/usr/bin/env bash
# What the program says of GPUs: without a driver, on stand-ins, with kernels and without.
#   program_test.sh FLOTILLA STANDIN_FOLDER mpirun and its flags...
set -euo pipefail
flotilla=$1 standin=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
unset LD_LIBRARY_PATH FLOTILLA_GPU_KERNELS
fail() { echo "program_test: $*" >&2 && exit 1; }
# finds WHAT COMMAND...: what the command says holds it; its exit code is not looked at, for there may be other problems here.
finds() {
  local what=$1 said
  said=$("${@:2}" 2>&1) || true
  grep -qE "$what" <<<"$said" || fail "no '$what' in: $said"
}
on_standin=(env LD_LIBRARY_PATH="$standin" FLOTILLA_STANDIN_DEVICES=h100)
with_kernels=("${on_standin[@]}" FLOTILLA_GPU_KERNELS="$standin/libstandin_kernels.so")

finds '^gpu +no GPU here: .*libcuda.so.1' "$flotilla" --version
finds '^kernels +(CUDA [0-9.]+: sm_|none: built without nvcc)' "$flotilla" --version
finds 'gpus: none here' "$flotilla" doctor
finds '^gpu +driver of CUDA 13.0 \(580.65.06\); 1 x NVIDIA H100 80GB HBM3' "${on_standin[@]}" "$flotilla" --version
finds '^gpu +no GPU here: the driver is too old' "${on_standin[@]}" FLOTILLA_STANDIN_FAULTS=init@1=35 "$flotilla" --version
finds '^kernels .*libstandin_kernels.so \(FLOTILLA_GPU_KERNELS\)' "${with_kernels[@]}" "$flotilla" --version
finds '^good +gpus: 1 x NVIDIA H100 80GB HBM3' "${with_kernels[@]}" "$flotilla" doctor
finds 'evidence: driver of CUDA 13.0 \(580.65.06\)' "${with_kernels[@]}" "$flotilla" doctor
if "$flotilla" --version | grep -q '^kernels *none'; then
  finds '^problem +gpus: this Flotilla cannot compute on NVIDIA H100' "${on_standin[@]}" "$flotilla" doctor
else
  finds '^good +gpus: 1 x NVIDIA H100' "${on_standin[@]}" "$flotilla" doctor
fi
finds 'gpus: 2 ranks of .* share one GPU' "${with_kernels[@]}" "$@" -n 2 "$flotilla" doctor
finds '^good +gpus: 1 x NVIDIA H100 80GB HBM3, 1 x Tesla T4' "${with_kernels[@]}" FLOTILLA_STANDIN_DEVICES=h100,t4 "$@" -n 2 "$flotilla" doctor
