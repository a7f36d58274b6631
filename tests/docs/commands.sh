# shellcheck shell=bash
# For the tests that run documents: sourced.

# The commands ("$ ...") of a page's ```console blocks, one a line, as a reader would type them.
commands_of() { # PAGE
  awk '/^```console/ {inside = 1; next} /^```/ {inside = 0} inside && /^\$ / {sub(/^\$ /, ""); sub(/ +# .*$/, ""); print}' "$1"
}

# What the command does is tested elsewhere (tests/run.sh, the quickstart test, install_test); a page may only name what is there.
builds_or_tests() { # COMMAND
  case $1 in examples/*.sh* | tests/*.sh* | cmake\ * | ctest\ *) return 0 ;; *) return 1 ;; esac
}

# A folder that looks like a clone with its build, in which commands may leave files behind.
make_clone() { # FOLDER SOURCE_DIR BINARY_DIR
  local name
  for name in README.md examples docs slurm tests CMakePresets.json; do ln -s "$2/$name" "$1/$name"; done
  ln -s "$3" "$1/build"
}
