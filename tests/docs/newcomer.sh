#!/usr/bin/env bash
# The newcomer's path: README.md from top to bottom, as it stands, on a terminal of 80 columns and on two cores.
#
#   newcomer.sh SOURCE_DIR BINARY_DIR root|user [RECORDING]
#
# root: as this process's user, if that is root; user: as "nobody", if this process may become him and he may run the program, else as itself.
# Exit code 77: skipped.
# Lines of tables and progress must fit the terminal; messages ("flotilla: ...") are a line each, whatever their length. Every command must
# show what it shows in newcomer.txt, the kept recording of such a run: the same kinds of lines in the same order. With RECORDING, the
# terminal's text is written there, and not compared; of a run's progress only the first line and those that evaluate or save. To keep it:
#
#   newcomer.sh . build user tests/docs/newcomer.txt
set -euo pipefail
source_dir=$(realpath "$1") binary_dir=$(realpath "$2") who=$3 recording=${4:+$(realpath "$4")}
# shellcheck source=tests/docs/commands.sh
. "$(dirname "$0")/commands.sh"
as=()
if [ "$who" = root ]; then
  [ "$(id -u)" -eq 0 ] || { echo "SKIPPED: not root" && exit 77; }
elif [ "$(id -u)" -eq 0 ]; then
  as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
  "${as[@]}" test -x "$binary_dir/src/app/flotilla" || as=()
fi
for program in script taskset; do command -v "$program" >/dev/null || { echo "SKIPPED: $program is not here" && exit 77; }; done

kept=$source_dir/tests/docs/newcomer.txt
# Each command, and under it the kinds of lines that it printed, each once: the label of a line "label  text", the head of a table, a message
# without its numbers. What depends on the machine's load is left out.
shape() { # TRANSCRIPT
  awk '
    /^\$ / {print; delete seen; next}
    /^flotilla: (warning:|started |after step [0-9]+: |step [0-9]+: )/ || /^plan changed / || /^  (profile|forecast)  / {next}
    /^step +[0-9]+\/[0-9]+  / {kind = /  (evaluation|checkpoint) / ? "step, saved or evaluated" : "step"}
    /^flotilla: / {kind = $0; gsub(/[0-9]+/, "N", kind)}
    kind == "" && match($0, /^ ? ?[a-z][a-z,]*( [a-z][a-z,]*)*  /) {kind = substr($0, 1, RLENGTH)}
    kind != "" && !(kind in seen) {print "  " kind}
    {seen[kind] = 1; kind = ""}' "$1"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make_clone "$scratch" "$source_dir" "$binary_dir"
{
  echo 'stty cols 80 rows 24'
  while IFS= read -r line; do
    builds_or_tests "$line" || printf 'echo; echo %q\n%s || { echo "ended with $?"; exit 1; }\n' "\$ $line" "$line"
  done < <(commands_of "$source_dir/README.md")
} >"$scratch/path.sh"
[ ${#as[@]} -eq 0 ] || chown -R nobody:nogroup "$scratch"

cd "$scratch"
two_cpus() { taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done | sed -n 1,2p | paste -sd,; }
code=0
env -i HOME="$scratch" PATH="$PATH" TERM=xterm LANG=C taskset -c "$(two_cpus)" "${as[@]}" \
  script -qefc 'bash path.sh' terminal.txt >/dev/null 2>&1 </dev/null || code=$?
without_codes() { sed -e 's/\x1b\[[0-9;]*[A-Za-z]//g' -e 's/\r//g' -e '/^Script \(started\|done\)/d'; }
# A live line (a search of some seconds) is written over: what stays is its last state; each state must fit.
sed -e 's/^.*\r\x1b\[K//' terminal.txt | without_codes >plain.txt
sed -e 's/\r\x1b\[K/\n/g' terminal.txt | without_codes >states.txt
if [ "$code" -ne 0 ]; then
  tail -60 plain.txt
  echo "the newcomer's path ends with $code as $who"
  exit 1
fi
wide=$(awk 'length > 80 && !/^(\$|flotilla:) /' states.txt)
[ -z "$wide" ] || { echo "wider than 80 columns:" && echo "$wide" && exit 1; }
for line in 'flotilla: incarnation 1 of ' 'summary ' 'flotilla: finished' 'proven ' 'checkpoint '; do
  grep -q "^$line" plain.txt || { cat plain.txt && echo "missing: $line" && exit 1; }
done
sed -i "s/\b$(hostname -s)\b/node1/g" plain.txt
[ -z "$recording" ] || awk '/^\$ / {step = 0} !/^step +[0-9]+\/[0-9]+  / || step++ == 0 || /  (evaluation|checkpoint) /' plain.txt >"$recording"
[ -n "$recording" ] || diff <(shape "$kept") <(shape plain.txt) >difference ||
  { cat plain.txt difference && echo "other kinds of lines than in tests/docs/newcomer.txt (<)" && exit 1; }
echo "$(grep -c '^\$ ' plain.txt) commands of README.md ran as $who; the widest line fits 80 columns"
