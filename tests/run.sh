#!/usr/bin/env bash
# Builds Flotilla with its tests and runs them, in one of three tiers (docs/design/ci.md says which entry shows what):
#
#   tests/run.sh --quick           units: some minutes after the build
#   tests/run.sh                   every capability once; what CI runs
#   tests/run.sh --all             also the rest of the matrix, long storms and fuzzing, all architectures: hours, before a release
#   tests/run.sh -R '^plan_'       arguments go to ctest: entries by name, of any tier
#   tests/run.sh --record          writes the seconds that entries took the last time to tests/cmake/costs.txt
#
# Missing packages are installed, and build/ is built first. Exit code: ctest's; 69 when something is missing that may not be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/debian_packages.sh

tier=default
case ${1:-} in --quick | --all) tier=${1#--} && shift ;; esac
costs=tests/cmake/costs.txt
record_costs() {
  { grep '^#' "$costs"
    sed '/^---/,$d' build/Testing/Temporary/CTestCostData.txt | awk '$3 >= 0.5 {printf "%s %.0f\n", $1, $3 < 1 ? 1 : $3}' | LC_ALL=C sort; } >"$costs.new"
  mv "$costs.new" "$costs"
}
if [ "${1:-}" = --record ]; then
  record_costs && exit
fi

# shellcheck disable=SC2086
need_packages $flotilla_build_packages $flotilla_test_packages
# shellcheck disable=SC2086
(need_packages $flotilla_slurm_packages) || echo "flotilla: going on without them: the tests of Slurm will be skipped" >&2
(need_packages clang-format-14) || echo "flotilla: going on without it: the form of the code will not be checked" >&2

jobs=$(flotilla_build_jobs)
options=(-DFLOTILLA_TESTS=ON ${CI:+-DFLOTILLA_WERROR=ON})
if [ "$tier" = all ]; then
  options+=(-UFLOTILLA_CUDA -UFLOTILLA_CUDA_ARCHITECTURES)
elif [ ! -e build/CMakeCache.txt ] || grep -q '^FLOTILLA_CUDA:.*=OFF' build/CMakeCache.txt; then
  # A new build has kernels for one generation of GPUs and for those at hand: nvcc takes half a minute for each.
  at_hand=$(flotilla_gpu_architectures)
  options+=(-DFLOTILLA_CUDA=AUTO "-DFLOTILLA_CUDA_ARCHITECTURES=90${at_hand:+;$at_hand}")
fi
cmake --preset cpu-release "${options[@]}" >/dev/null
cmake --build --preset cpu-release -j "$jobs"

case $tier in
  quick) entries=(-LE '^(mpi|gpu|slurm|long|standin|all)$') ;;
  all) entries=() && export FLOTILLA_TESTS_TIER=all ;;
  default) if [ $# -gt 0 ]; then entries=(); else entries=(-LE '^all$'); fi ;;
esac
entries+=("$@")
# Open MPI's launchers share a folder of sessions: one that ends removes it, where no folder is in it, under one that begins.
host=$(uname -n)
sessions=${TMPDIR:-/tmp}/ompi.${host%%.*}.$(id -u)
(umask 077 && mkdir -p "$sessions/kept-by-tests")
trap 'rmdir "$sessions/kept-by-tests" "$sessions" 2>/dev/null || true' EXIT
listed() { ctest --preset cpu-release -N "${entries[@]}" "$@"; }
if [ "$tier" = all ] || { [ $# -gt 0 ] && listed -L '^all$' | grep -q 'Test *#'; }; then
  cmake --build --preset cpu-release -j "$jobs" --target all_tier
fi

# A slot is a thread that computes (tests/cmake/FlotillaTest.cmake); two for each core keep it busy while others wait.
reader=(awk)
if awk -W version 2>/dev/null </dev/null | grep -q mawk; then reader+=(-W interactive); fi # it would wait for 4 KiB
code=0
ctest --preset cpu-release --output-on-failure --no-label-summary -j "$((2 * $(nproc)))" "${entries[@]}" |
  "${reader[@]}" -v costs="$costs" -v entries="$(listed | sed -n 's/^ *Test *#[0-9]*: //p')" -f tests/progress.awk || code=${PIPESTATUS[0]}
exit "$code"
