#!/usr/bin/env bash
# Installs into a scratch folder, runs what was installed, and builds other projects in C++ alone against it: one that plans, where
# what training needs cannot be found, one that trains, and one that asks for what is not there.
#   install_test.sh BUILD_DIR CONSUMER_DIR TRAINER_CONSUMER_DIR
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/prefix" >/dev/null
"$scratch/prefix/bin/flotilla" --version
"$(dirname "$0")/installed_test.sh" "$scratch/prefix"

build() { # FOLDER NAME CMAKE_OPTIONS...
  cmake -S "$1" -B "$scratch/$2" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$scratch/prefix" "${@:3}" >"$scratch/$2.log" 2>&1 &&
    cmake --build "$scratch/$2" >>"$scratch/$2.log" 2>&1 || { cat "$scratch/$2.log" && return 1; }
}
missing=()
for package in MPI HDF5 ucx PkgConfig Boost tomlplusplus dnnl OpenMP; do missing+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
build "$2" consumer "${missing[@]}"
"$scratch/consumer/consumer"
build "$3" trainer_consumer
"$scratch/trainer_consumer/trainer_consumer"
mkdir "$scratch/wrong"
cat >"$scratch/wrong/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(wrong LANGUAGES CXX)
find_package(flotilla REQUIRED COMPONENTS training)
END
! build "$scratch/wrong" wrong_build >"$scratch/refusal" || { echo "a component that is not there was found" && exit 1; }
grep -q "flotilla has no component 'training'" "$scratch/refusal" || { cat "$scratch/refusal" && exit 1; }
