# shellcheck shell=bash
# Sourced by the scripts of this folder, in the source directory: building the program and starting it.
. examples/debian_packages.sh

build_flotilla() {
  # shellcheck disable=SC2086
  need_packages $flotilla_build_packages
  # A new build has kernels for the GPUs of this machine alone; one that is there keeps what it was made for.
  local kernels=""
  if [ ! -e build/CMakeCache.txt ]; then
    kernels=$(flotilla_gpu_architectures)
    [ -n "$kernels" ] || echo "flotilla: no GPU here, so none is built for; for GPUs of other nodes: cmake --preset cpu-release -DFLOTILLA_CUDA=AUTO" >&2
    kernels=${kernels:+-DFLOTILLA_CUDA_ARCHITECTURES=$kernels}
    kernels=${kernels:--DFLOTILLA_CUDA=OFF}
  fi
  cmake --preset cpu-release -DFLOTILLA_TESTS="${FLOTILLA_TESTS:-OFF}" ${kernels:+"$kernels"} >/dev/null
  cmake --build --preset cpu-release -j "$(flotilla_build_jobs)" --target flotilla
}

# Real text that is on every Debian system, a name on each line; elsewhere this project's own documents.
plain_texts() {
  local found
  found=$(find /usr/share/common-licenses -maxdepth 1 -type f -size +8k 2>/dev/null | sort)
  [ -n "$found" ] || found=$(find docs README.md -name '*.md' -size +2k | sort)
  echo "$found"
}

# flotilla_on RANKS ARGUMENT...: becomes mpirun with flotilla on that many ranks, which may share cores. Call it in a subshell.
flotilla_on() {
  local ranks=$1
  shift
  local as_root=()
  [ "$(id -u)" -eq 0 ] && as_root=(--allow-run-as-root)
  exec mpirun "${as_root[@]}" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca btl_base_warn_component_unused 0 \
    -n "$ranks" build/src/app/flotilla "$@"
}
