#!/usr/bin/env bash
# nvcc compiles every kernel for each architecture, and the table of budgets holds.
#
#   budgets.sh SOURCE_DIR [ARCHITECTURES]      "75 80 86 89 90a 100 103 120"
#
# For each kernel: no spilled register, no stack, registers within the budget of its file, its name in the cubin. Exit code 77 without nvcc.
set -euo pipefail
root=${1:?the source directory}
architectures=${2:-75 90a 120}
command -v nvcc >/dev/null || { echo "SKIPPED: nvcc is not here"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Most registers of a thread: 65536 a multiprocessor, so blocks of 128 threads fit twice at 200 and 8 times at 64.
declare -A most=([attention]=200 [rows]=80 [elements]=64 [head]=64 [tokens]=64 [plain]=64)
declare -A kernels=([attention]=12 [rows]=6 [elements]=18 [head]=4 [tokens]=6 [plain]=3)
wrong=0
for architecture in $architectures; do
  for file in "${!most[@]}"; do
    cubin=$scratch/$file.cubin
    nvcc -std=c++20 --expt-relaxed-constexpr -I"$root/include" -arch="sm_$architecture" -cubin -Xptxas -v -o "$cubin" \
      "$root/src/runtime/compute/cuda/kernels/$file.cu" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
    awk -v file="$file" -v arch="$architecture" -v most="${most[$file]}" -v expected="${kernels[$file]}" '
      /Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2] }
      /bytes stack frame/ && kernel != "" {
        if ($0 !~ /^ *0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/) { print "sm_" arch, kernel ":" $0; bad = 1 }
      }
      /Used [0-9]+ registers/ && kernel != "" {
        match($0, /Used [0-9]+/)
        used = substr($0, RSTART + 5, RLENGTH - 5) + 0
        if (used > highest) highest = used
        if (used > most) { print "sm_" arch, kernel, "uses", used, "registers, more than", most; bad = 1 }
        ++seen
        kernel = ""
      }
      END {
        printf "sm_%s %s: %d kernels, at most %d registers of %d\n", arch, file, seen, highest, most
        if (seen != expected) { print "expected", expected, "kernels"; bad = 1 }
        exit bad
      }' "$scratch/log" || wrong=1
    for suffix in _f32 _bf16; do
      [ "$file" = plain ] || grep -qa "\.text\.[a-z_0-9]*$suffix" "$cubin" || { echo "sm_$architecture $file: no name ends in $suffix"; wrong=1; }
    done
  done
done
exit $wrong
