# Sourced by quickstart.sh and tests/run.sh: what Flotilla is built from, and how to get it on Debian 12.
# need_packages NAME...   installs what is missing, or says what is and ends with 69.

flotilla_build_packages="g++ cmake ninja-build pkg-config libopenmpi-dev openmpi-bin libhwloc-dev libucx-dev libhdf5-openmpi-dev
  libboost-program-options-dev libdnnl-dev ocl-icd-opencl-dev nlohmann-json3-dev libtomlplusplus-dev
  libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev libsentencepiece-dev"
flotilla_test_packages="libgtest-dev libboost-context-dev hdf5-tools lmod strace"
# A Slurm of the tests' own (tests/slurm); its daemons are started by the tests alone.
flotilla_slurm_packages="slurmctld slurmd slurm-client munge iproute2 iptables"

need_packages() {
  local missing="" package as_root=""
  if ! command -v dpkg-query >/dev/null; then
    echo "flotilla: this is no Debian system; the libraries of docs/building.md must be there already" >&2
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      as_root="sudo"
    else
      echo "flotilla: packages are missing and I may not install them; ask your administrator for:" >&2
      echo "  apt-get install$missing" >&2
      exit 69
    fi
  fi
  echo "flotilla: installing$missing"
  local quiet="-qq -o=Dpkg::Use-Pty=0"
  $as_root apt-get $quiet update >/dev/null || echo "flotilla: apt-get update failed; trying with the package lists there are" >&2
  refuse_daemons
  # shellcheck disable=SC2086
  if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get $quiet install -y --no-install-recommends $missing >/dev/null; then
    allow_daemons
    echo "flotilla: apt-get could not install:$missing" >&2
    exit 69
  fi
  allow_daemons
}

# Debian starts what it installs (munge, slurmd, ...) unless this file says no. One that was there before stays as it is.
refuse_daemons() {
  policy=/usr/sbin/policy-rc.d
  if [ -e "$policy" ]; then policy=""; else
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod +x "$policy"
  fi
}
allow_daemons() { [ -z "$policy" ] || $as_root rm -f "$policy"; }

# Compute capabilities of the GPUs at hand, "80;90"; nothing where there are none.
flotilla_gpu_architectures() {
  { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } | tr -d '. ' | sort -u | paste -sd';'
}

# Parallel compilers: one per core, but at most one per 1.5 GiB of memory.
flotilla_build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)
  [ "$memory" -lt 1 ] && memory=1
  [ "$memory" -lt "$cores" ] && echo "$memory" || echo "$cores"
}
