#!/usr/bin/env bash
# Fails if a source is not what clang-format 14 makes of it (.clang-format), and names it with the command that mends it. Other versions break
# lines elsewhere: without this one the test is skipped (77).
#
#   format.sh SOURCE_DIR
set -euo pipefail
cd "${1:?the source directory}"
for tool in clang-format-14 clang-format none; do
  [[ $("$tool" --version 2>/dev/null || true) != *"version 14."* ]] || break
done
[ "$tool" != none ] || { echo "SKIPPED: clang-format 14 is not here ($(clang-format --version 2>/dev/null || echo "nor another"))" && exit 77; }

mapfile -d '' sources < <(find src include tests -type f \( -name '*.[ch]pp' -o -name '*.cu' -o -name '*.inc' -o -name '*.h' \) -print0)
[ "${#sources[@]}" -gt 0 ] || { echo "no sources in $PWD" && exit 1; }
check() { printf '%s\0' "${sources[@]}" | xargs -0 "$@" "$tool" --dry-run -Werror --ferror-limit=1 2>&1; }
if check -P "$(nproc)" -n 50 >/dev/null; then
  echo "${#sources[@]} sources are what $tool makes of them"
  exit 0
fi
# Once more, file after file: processes beside one another mix their lines.
check -n 50 | sed -n "s|^\(.*\):[0-9]*:[0-9]*: error: code should be.*|\1: not in the form of .clang-format; run: $tool -i '\1'|p; t; /: error: /p" || true
exit 1
