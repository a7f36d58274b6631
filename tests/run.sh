#!/usr/bin/env bash
# Builds Flotilla with its tests and runs every test.
#
#   tests/run.sh             install what is missing, build in build/, run all tests
#   tests/run.sh -L room.plan      arguments go to ctest
#
# Exit code: ctest's; 69 when something is missing that may not be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/debian_packages.sh

# shellcheck disable=SC2086
need_packages $flotilla_build_packages $flotilla_test_packages
# shellcheck disable=SC2086
(need_packages $flotilla_slurm_packages) || echo "flotilla: going on without them: the tests of Slurm will be skipped" >&2
(need_packages clang-format-14) || echo "flotilla: going on without it: the form of the code will not be checked" >&2

# CI compiles kernels for three generations of GPUs only: nvcc takes a quarter of a minute for each.
cmake --preset cpu-release -DFLOTILLA_TESTS=ON ${CI:+-DFLOTILLA_WERROR=ON "-DFLOTILLA_CUDA_ARCHITECTURES=75;90;120"} >/dev/null
cmake --build --preset cpu-release -j "$(flotilla_build_jobs)"
# Most entries that start processes wait: for a deadline, a disk, a backoff. Two of them for each core keep it busy, and one more computes.
exec ctest --preset cpu-release --output-on-failure -j "$((2 * $(nproc) + 1))" "$@"
