#!/usr/bin/env bash
# What cmake --install put below PREFIX beside program and libraries: manual page, completion, modulefiles, job scripts.
#   installed_test.sh PREFIX
# Where Lmod or man is missing, its part says SKIPPED and why.
set -euo pipefail
prefix=$1
fail() { echo "installed_test: $*" >&2 && exit 1; }

page=$prefix/share/man/man1/flotilla.1
test -s "$page" || fail "no manual page"
if command -v man >/dev/null; then
  warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
  [ -z "$warnings" ] || fail "the manual page: $warnings"
else
  echo "SKIPPED: man is not here to read the manual page with"
fi
for command in train plan submit doctor report; do
  grep -q "$command" "$page" || fail "the manual page does not name $command"
done

completion=$prefix/share/bash-completion/completions/flotilla
test -s "$completion" || fail "no completion"
# What bash would offer behind these words.
offered() { # WORDS... with the last one begun
  bash -c '
    . "$1"
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
    function=$(complete -p flotilla | sed "s/.*-F \([^ ]*\).*/\1/")
    "$function" flotilla "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"' bash "$completion" "$@"
}
offered flotilla su | grep '^submit' >/dev/null || fail "completion does not know submit"
offered flotilla submit --submit.w | grep '^--submit.wait' >/dev/null || fail "completion does not know --submit.wait"
offered flotilla doctor --format '' | grep '^json' >/dev/null || fail "completion does not know the formats"

for script in "$prefix"/share/flotilla/slurm/*.sh; do
  bash -n "$script" || fail "$script"
done
# The program finds the shell library that was installed with it.
answers=$(dirname "$0")/../app/submit/testbed
"$prefix/bin/flotilla" submit --model.name opt-125m --training.global-batch 64 --dry-run --submit.answers "$answers" |
  grep -x ". $prefix/share/flotilla/slurm/flotilla.sh || exit 69" >/dev/null || fail "submit does not find the installed shell library"

modules=$prefix/share/flotilla/modules
lmod=
for init in /usr/share/lmod/lmod/init/bash /etc/profile.d/lmod.sh "${LMOD_ROOT-/nowhere}/lmod/init/bash"; do
  [ -z "$lmod" ] && [ -r "$init" ] && lmod=$init
done
if [ -z "$lmod" ]; then
  echo "SKIPPED: Lmod is not here to load the modulefiles with"
else
  # The Lua file goes before where both stand; alone, the Tcl file is read.
  alone=$(mktemp -d)
  trap 'rm -rf "$alone"' EXIT
  mkdir -p "$alone/share/flotilla/modules"
  cp "$modules/flotilla" "$alone/share/flotilla/modules/"
  for place in "$prefix" "$alone"; do
    # shellcheck disable=SC2016
    env -u MANPATH bash -c '
      set -e
      . "$1" >/dev/null 2>&1
      module use "$2/share/flotilla/modules"
      module load flotilla
      case ":$PATH:" in *":$2/bin:"*) ;; *) echo "PATH=$PATH" && exit 1 ;; esac
      case "$MANPATH" in "$2/share/man:"*) ;; *) echo "MANPATH=$MANPATH" && exit 1 ;; esac
      [ "$FLOTILLA_SHARE" = "$2/share/flotilla" ]
      module unload flotilla
      case ":$PATH:" in *":$2/bin:"*) echo "unload left PATH" && exit 1 ;; esac
      [ -z "${FLOTILLA_SHARE-}" ]' bash "$lmod" "$place" || fail "module load flotilla, from $place"
  done
fi
if command -v tclsh >/dev/null; then
  # shellcheck disable=SC2016
  echo 'proc unknown {args} {}; set ModulesCurrentModulefile /p/share/flotilla/modules/flotilla; source [lindex $argv 0]; puts $prefix' |
    tclsh /dev/stdin "$modules/flotilla" | grep -x /p >/dev/null || fail "the Tcl modulefile"
fi
if command -v python3 >/dev/null; then
  python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$(dirname "$0")/../../modules/spack/package.py" || fail "the Spack recipe"
fi
