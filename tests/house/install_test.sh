#!/usr/bin/env bash
# Installs into a scratch folder, runs what was installed, and builds another project against it.
#   install_test.sh BUILD_DIR CONSUMER_DIR
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/prefix" >/dev/null
"$scratch/prefix/bin/flotilla" --version
"$(dirname "$0")/installed_test.sh" "$scratch/prefix"
cmake -S "$2" -B "$scratch/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/consumer" >/dev/null
"$scratch/consumer/consumer"
