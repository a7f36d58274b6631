#!/usr/bin/env bash
# Every program and shared library that is built looks for libraries in absolute folders only: an empty entry in a run path is the current
# folder, and whatever lies there would run as whoever starts the program. Their tables of addresses are read-only once they run.
# Arguments: the build folder, programs that must be among them.
set -uo pipefail
build=$1
shift
failures=0 seen=0
fail() { echo "FAILED: $*" && failures=$((failures + 1)); }

entries_of() { sed -n 's/.*(\(RUNPATH\|RPATH\)).*\[\(.*\)\]$/\2/p' <<<"$1"; }

# "" where all entries are absolute, else the first that is not, between apostrophes.
bad_entry() {
  local path=$1 entry
  [ -n "$path" ] || return 0
  path=$path: # so that an empty last entry is one, too
  while [ -n "$path" ]; do
    entry=${path%%:*} path=${path#*:}
    case $entry in /*) ;; *) echo "'$entry'" && return ;; esac
  done
}

# The test itself must see them.
for path in /usr/lib: :/usr/lib /a::/b lib . "\$ORIGIN/../lib"; do [ -n "$(bad_entry "$path")" ] || fail "'$path' was taken for a sound run path"; done
[ -z "$(bad_entry /a:/b)$(bad_entry '')" ] || fail "a sound run path was refused"

while IFS= read -r -d '' file; do
  facts=$(readelf -dW "$file" 2>/dev/null) || continue
  case $facts in *NEEDED*) ;; *) continue ;; esac
  seen=$((seen + 1))
  bad=$(bad_entry "$(entries_of "$facts")")
  [ -z "$bad" ] || fail "$file: its run path has the entry $bad; expected absolute folders"
  # These two are loaded into programs without MPI.
  case $file in */libstandin_mpi.so | */libstandin_node.so) continue ;; esac
  grep -qE 'FLAGS_1.*\bNOW\b|BIND_NOW' <<<"$facts" || fail "$file: binds its symbols lazily; expected -z now"
  grep -q GNU_RELRO <<<"$(readelf -lW "$file")" || fail "$file: has no GNU_RELRO segment; expected -z relro"
done < <(find "$build/src" "$build/tests" -type f \( -perm -u+x -o -name '*.so*' \) -not -path '*/CMakeFiles/*' -size +8k -print0)
for program in "$@"; do [ -f "$program" ] || fail "$program: is not there"; done
[ "$seen" -gt 0 ] || fail "$build: no program was found"
echo "$seen programs looked at"
[ "$failures" -eq 0 ]
