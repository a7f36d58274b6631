#!/usr/bin/env bash
# The first day with a GPU, in one command of at most ten minutes, on a machine with a GPU, its driver, nvcc, g++ and CMake, and nothing else.
#
#   first_light.sh [OUT]          OUT: a folder for first_light.json and first_light.md (default: first_light)
#   first_light.sh --tiny [OUT]   sizes that a stand-in device has time for
#
# Builds the kernels for the device and a checker, holds every kernel against references in fp64, runs the checks under compute-sanitizer where
# it is, and times every kernel at the sizes of a GPT-2 124M step: against its floor (bytes or FLOPs at the rates measured first), and beside
# PyTorch where python3 has it. Where NCCL is: collectives of all visible GPUs, with known answers, bandwidths as nccl-tests define them, and an
# abort while a member is missing. FLOTILLA_GPU_KERNELS names an image that replaces the kernels built here (docs/gpu.md).
# Exit code 1 if a check or a sanitizer finds something; 69 without a GPU, nvcc or a compiler.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tiny=""
[ "${1:-}" = --tiny ] && { tiny=tiny; shift; }
out=${1:-first_light}
mkdir -p "$out"
out=$(cd "$out" && pwd)
wrong=0
step() { echo "first_light: $*" >&2; }

step "building"
kernels=ON
[ -n "${FLOTILLA_GPU_KERNELS:-}" ] && kernels=OFF
architecture=""
if command -v nvidia-smi >/dev/null; then
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
fi
cmake -S "$here/first_light" -B "$out/build" -DFLOTILLA_CUDA=$kernels ${architecture:+-DFLOTILLA_CUDA_ARCHITECTURES=$architecture} >"$out/build.log" 2>&1 &&
  cmake --build "$out/build" -j "$(nproc)" >>"$out/build.log" 2>&1 || { tail -20 "$out/build.log" >&2; exit 69; }
program=$out/build/first_light
device=$("$program" device) || exit 69
step "$device"

step "checking every kernel"
checked=passed
"$program" check >"$out/checks.txt" 2>&1 || { checked=failed; wrong=1; }
values=$(grep -c ' values, worst ' "$out/checks.txt" || true)
[ "$values" -gt 0 ] || { checked=failed; wrong=1; }

sanitizers=""
for tool in memcheck racecheck initcheck synccheck; do
  result="skipped: compute-sanitizer is not here"
  if command -v compute-sanitizer >/dev/null; then
    step "compute-sanitizer $tool"
    result=passed
    timeout 90 compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" check >"$out/$tool.txt" 2>&1 || result="exit code $?"
    [ "$result" = passed ] || [ "$result" = "exit code 124" ] || wrong=1
  fi
  sanitizers+="${sanitizers:+, }\"$tool\": \"$result\""
done

step "timing"
"$program" speed $tiny >"$out/speed.jsonl" || { step "no times"; wrong=1; }
: >"$out/torch.jsonl"
torch="skipped: python3 has no PyTorch with a GPU"
if [ -z "$tiny" ] && command -v python3 >/dev/null && timeout 150 python3 "$here/first_light/torch_speed.py" >"$out/torch.jsonl" 2>/dev/null; then
  torch=measured
fi

step "groups of GPUs"
"$program" groups $tiny >"$out/groups.jsonl" || { step "a group of GPUs failed"; wrong=1; }

lines() { paste -sd, "$1"; }
cat >"$out/first_light.json" <<JSON
{"format": "flotilla-first-light", "version": 1, "device": $device,
 "checks": {"result": "$checked", "comparisons": $values}, "sanitizers": {$sanitizers},
 "speed": [$(lines "$out/speed.jsonl")], "pytorch": {"result": "$torch", "speed": [$(lines "$out/torch.jsonl")]},
 "groups": [$(lines "$out/groups.jsonl")]}
JSON
{
  echo "# First light"
  echo
  echo "$device" | sed 's/[{}"]//g'
  echo
  echo "Checks against fp64: $checked, $values comparisons. Sanitizers: $(echo "$sanitizers" | tr -d '"'). PyTorch: $torch."
  echo
  sed -n 's/.*"kernel": "rates", \(.*\)}/Rates per second: \1./p' "$out/speed.jsonl" | tr -d '"'
  echo
  echo "| kernel | us | floor, us | share of the floor's speed | PyTorch, us |"
  echo "|---|---|---|---|---|"
  awk -F'[:,}] *' '
    { delete field; for (i = 1; i < NF; ++i) { name = $i; gsub(/[{" ]/, "", name); field[name] = $(i + 1) }; kernel = field["kernel"]; gsub(/"/, "", kernel) }
    FILENAME ~ /torch.jsonl$/ { torch[kernel] = sprintf("%.1f", field["torch_seconds"] * 1e6); next }
    kernel != "rates" { printf "| `%s` | %.1f | %.1f | %.0f %% | %s |\n", kernel, field["seconds"] * 1e6, field["floor_seconds"] * 1e6, field["share"] * 100, (kernel in torch) ? torch[kernel] : "-" }
  ' "$out/torch.jsonl" "$out/speed.jsonl"
  echo
  echo "| collective of NCCL | GPUs | bytes | us | algorithm, GB/s | bus, GB/s |"
  echo "|---|---|---|---|---|---|"
  awk -F'[:,}] *' '
    { delete field; for (i = 1; i < NF; ++i) { name = $i; gsub(/[{" ]/, "", name); field[name] = $(i + 1) }; group = field["group"]; gsub(/"/, "", group) }
    "bytes" in field { printf "| `%s` | %d | %d | %.1f | %.2f | %.2f |\n", group, field["devices"], field["bytes"], field["seconds"] * 1e6, field["algorithm_bandwidth"] / 1e9, field["bus_bandwidth"] / 1e9 }
  ' "$out/groups.jsonl"
  sed -n 's/.*"group": "none", "why": "\(.*\)"}/No groups: \1./p; s/.*"group": "abort".*"done": true, "seconds": \(.*\)}/An abort took \1 s./p' "$out/groups.jsonl"
} >"$out/first_light.md"
cat "$out/first_light.md"
grep -h WRONG "$out/checks.txt" || true
exit $wrong
