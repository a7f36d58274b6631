#!/usr/bin/env bash
# Every kernel of a build holds its budget (budgets.txt) on every architecture.
#
#   budgets.sh resources KERNELS      of what ptxas said: registers, static shared memory, no stack and no spills; no kernel without a budget
#   budgets.sh instructions KERNELS   of the machine code: wide accesses, asynchronous copies, tensor instructions; no access to local memory
#
# KERNELS: the build's folder of sm_NN.cubin and their logs. Exit code 77 where there is none, or no cuobjdump (and nvdisasm) for instructions.
set -euo pipefail
table=$(dirname "${BASH_SOURCE[0]}")/budgets.txt
what=$1 kernels=$2
compgen -G "$kernels/*.cubin" >/dev/null || { echo "SKIPPED: this build has no kernels for GPUs"; exit 77; }

resources() { # CUBIN
  awk -v file="$(basename "$1" .cubin)" '
    NR == FNR { if (NF && !/^#/) { registers[$1] = $2; shared[$1] = $3 } next }
    function wrong(words) { print file, kernel ": " words; bad = 1 }
    /Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2]; base = kernel; sub(/_(f32|bf16|f16)$/, "", base) }
    /bytes stack frame/ && !/^ *0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ { wrong($0) }
    /Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/); used = substr($0, RSTART + 5, RLENGTH - 5) + 0
      memory = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0
      if (!(base in registers)) wrong("has no budget in budgets.txt")
      else {
        if (used > registers[base]) wrong(used " registers, more than " registers[base])
        if (memory > shared[base]) wrong(memory " bytes of shared memory, more than " shared[base])
        met[base] = 1
      }
      if (used > highest) { highest = used; worst = kernel }
      ++seen
    }
    END {
      for (base in registers) if (!(base in met)) { kernel = base; wrong("is in budgets.txt and not in the build") }
      printf "%-8s %d kernels, at most %d registers (%s), no spills\n", file, seen, highest, worst
      exit bad
    }' "$table" "$1.log"
}

instructions() { # CUBIN
  cuobjdump -sass "$1" | awk -v file="$(basename "$1" .cubin)" '
    NR == FNR { if (NF && !/^#/) { wanted[$1] = ""; for (i = 4; i <= NF; ++i) wanted[$1] = wanted[$1] " " $i } next }
    function wrong(words) { print file, kernel ": " words; bad = 1 }
    function finish(  n, i, each) {
      if (kernel == "") return
      base = kernel; sub(/_(f32|bf16|f16)$/, "", base)
      n = modern ? split(wanted[base], each, " ") : 0
      for (i = 1; i <= n; ++i) { ++looked; if (!((each[i]) in met)) wrong("has no " each[i]) }
      delete met
    }
    BEGIN { split(file, name, "_"); modern = name[2] + 0 >= 80 }
    $1 == "Function" { finish(); kernel = $3; ++seen }
    $1 ~ /^\/\*/ {
      for (i = 2; i <= 4; ++i) if ($i ~ /^[A-Z]/ && $i !~ /^@/) break
      code = $i
      if (code ~ /^(LDL|STL)/) wrong("uses local memory: " code)
      for (form = code; form != ""; sub(/\.?[^.]*$/, "", form)) met[form] = 1
      if (code ~ /^HMMA/) ++tensor
    }
    END {
      finish()
      printf "%-8s %d kernels, %d demands met, %d tensor instructions\n", file, seen, looked, tensor
      exit bad || seen == 0
    }' "$table" -
}

if [ "$what" = instructions ]; then
  { command -v cuobjdump && command -v nvdisasm; } >/dev/null || {
    echo "SKIPPED: cuobjdump and nvdisasm are not here (CUDA toolkit, or pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)"
    exit 77
  }
fi
wrong=0
for cubin in "$kernels"/*.cubin; do "$what" "$cubin" || wrong=1; done
exit $wrong
