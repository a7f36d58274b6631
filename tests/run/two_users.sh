#!/usr/bin/env bash
# What one user plants, another one runs into: links, folders, pipes, caches, names. Each case of docs/security.md that needs two users: the
# command refuses in one line and ends, and the files of who runs it are as they were.
#
#   two_users.sh PROGRAM SOURCE_DIR
#
# Exit code 77: skipped, for only root can be two users.
set -uo pipefail
program=$1 source_dir=$2
[ "$EUID" -eq 0 ] || { echo "SKIPPED: not root, who alone can be two users" && exit 77; }
command -v setpriv >/dev/null || { echo "SKIPPED: setpriv is not here" && exit 77; }
# shellcheck source=tests/support/waiting.sh
. "$source_dir/tests/support/waiting.sh"
# shellcheck source=tests/support/site_commands.sh
. "$source_dir/tests/support/site_commands.sh"

work=$(mktemp -d) failures=0
trap 'rm -rf "$work"' EXIT
victim=20001 attacker=20002
chmod 755 "$work"
cp "$program" "$work/flotilla"
cp "$source_dir/examples/tokenizer.json" "$work"
head -c 8000 "$source_dir/README.md" >"$work/text.txt"
mkdir "$work/home" "$work/theirs" "$work/pub"
chmod 1777 "$work/pub"
chown $victim:$victim "$work/home"
chown $attacker:$attacker "$work/theirs"
chmod 644 "$work/text.txt" "$work/tokenizer.json"
chmod 755 "$work/flotilla"

as() { # USER COMMAND...: in that user's folder
  local user=$1 home=$work/home
  [ "$user" = $victim ] || home=$work/theirs
  shift
  (cd "$home" && exec setpriv --reuid="$user" --regid="$user" --clear-groups env -i PATH=/usr/bin:/bin HOME="$home" TMPDIR="$home" OMP_NUM_THREADS=1 "$@")
}
wrong() { echo "FAILED: $*" && failures=$((failures + 1)); }

# expect NAME CODE PATTERN WORDS...: of flotilla, run by the victim; hang_bound seconds are a hang.
expect() {
  local name=$1 code=$2 pattern=$3 got
  shift 3
  as $victim timeout -k 5 "$hang_bound" "$work/flotilla" "$@" >"$work/said" 2>&1 </dev/null
  got=$?
  if [ "$got" -ne "$code" ] || ! grep -qE -- "$pattern" "$work/said"; then
    wrong "$name: exit code $got, expected $code; expected to find: $pattern"
    cat "$work/said"
  fi
}
holds() { [ "$(cat "$1" 2>/dev/null)" = "$2" ] || wrong "$1 is not as it was"; }
gone() { [ ! -e "$1" ] && [ ! -L "$1" ] || wrong "$1 is there"; }
empty() { [ -z "$(ls -A "$1")" ] || wrong "$1 holds $(ls -A "$1" | tr '\n' ' ')"; }
# A folder of the attacker's into which everybody may write.
plant_folder() { rm -rf "$1" && as $attacker mkdir -m 777 "$1"; }

cat >"$work/home/job.toml" <<T
model.name = "gpt2-tiny"
data = { train = ["$work/text.txt"], format = "text" }
training = { steps = 2, global-batch = 4, length = 16 }
checkpoint.every = 2
probe.budget = "1s"
T
# A run directory with a profile, so that nothing is measured twice.
new_run() { rm -rf "$work/home/$1" && as $victim mkdir -p "$1" && as $victim cp run/profile.json "$1"; }

expect "a run" 0 finished train job.toml --run.directory run
expect "its model" 0 . export hf run -o model
secret=$work/home/secret
as $victim sh -c 'umask 077 && echo precious >secret'

# ---- what is loaded: nothing from the current folder
as $attacker sh -c 'ldd "$1" | while read -r name rest; do case $name in *.so*) echo planted >"${name##*/}" ;; esac; done; echo planted >libcuda.so.1' sh "$work/flotilla"
(cd "$work/theirs" && setpriv --reuid=$victim --regid=$victim --clear-groups env LD_DEBUG=libs "$work/flotilla" --version) >"$work/said" 2>&1 || wrong "libraries in the current folder stop the program"
if grep -E "trying file=([^/]|$work/theirs)" "$work/said"; then wrong "a library is looked for in the current folder"; fi
grep -q "trying file=/" "$work/said" || wrong "it was not seen where libraries are looked for"

# ---- unfinished outputs of tokenize
tokenize() { expect "$1" 65 "$2" tokenize --tokenizer "$work/tokenizer.json" "$work/text.txt" -o "$3"; }
plant_folder "$work/pub/out.partial"
as $attacker ln -s "$secret" "$work/pub/out.partial/tokens"
as $attacker sh -c 'echo "{}" >"$1/state.json"' sh "$work/pub/out.partial"
tokenize "a planted folder for an unfinished output" "belongs to user $attacker" "$work/pub/out"
as $attacker ln -s "$work/theirs" "$work/pub/linked.partial"
tokenize "a planted link for one" "symbolic link" "$work/pub/linked"
as $victim mkdir own.partial
ln "$secret" "$work/home/own.partial/tokens" # as a group's member could
tokenize "the user's file under a second name" "under one name" own
as $victim mkdir -p x.partial/photos
as $victim sh -c 'echo dear >x.partial/photos/a'
tokenize "a folder with other things" "holds 'photos'" x
holds "$work/home/x.partial/photos/a" dear
plant_folder "$work/theirs/open"
as $victim mkdir "$work/theirs/open/mine"
tokenize "a folder on the way that everybody may write" "everybody may write into $work/theirs/open" "$work/theirs/open/mine/out"
gone "$work/theirs/open/mine/out.partial"
holds "$secret" precious

# ---- a model's folder
cp -r "$work/home/model" "$work/theirs/model" && chown -R $attacker:$attacker "$work/theirs/model"
as $attacker ln -s "$secret" model/LICENSE
weights() { expect "$1" "$2" "$3" train job.toml --run.directory "$4" --model.name gpt2-tiny --model.weights "$5"; }
new_run stolen
weights "a link to the user's file in another's model" 65 "belongs to another user" stolen "$work/theirs/model"
gone "$work/home/stolen/pretrained/LICENSE"
as $victim ln -s ../secret model/LICENSE
new_run own
weights "the user's own link" 0 finished own model
[ "$(stat -c %a "$work/home/own/pretrained/LICENSE")" = 600 ] || wrong "a copy has more mode bits than its source"
expect "exporting what was carried" 0 . export hf own -o again
[ "$(stat -c %a "$work/home/again/LICENSE")" = 600 ] || wrong "an exported copy has more mode bits than its source"
as $victim sh -c 'rm model/LICENSE && mkfifo model/LICENSE'
new_run piped
weights "a pipe in a model's folder" 65 "not a regular file" piped model
as $victim rm model/LICENSE

# ---- folders that are written
as $victim sh -c 'mkdir other && echo theirs >other/config.json'
new_run linked
as $victim ln -s ../other linked/pretrained
weights "pretrained that is a link" 65 "symbolic link" linked model
holds "$work/home/other/config.json" theirs
new_run second
as $victim ln -s "$work/theirs" second/incarnations
expect "incarnations that is a link" 65 "symbolic link" train job.toml --run.directory second
for option in checkpoint.local data.cache; do
  new_run second
  plant_folder "$work/pub/planted"
  # A cache is of texts and a tokenizer's tokens.
  more=()
  [ $option != data.cache ] || more=(--data.format auto --data.tokenizer "$work/tokenizer.json" --model.name gpt2-mini)
  expect "$option in another's folder" 65 "$work/pub/planted.*(belongs to|everybody may write)" train job.toml --run.directory second --$option "$work/pub/planted" "${more[@]}"
  [ -z "$(find "$work/pub/planted" -type f)" ] || wrong "$option has written into another's folder"
done
new_run second
plant_folder "$work/pub/planted"
expect "report.tensorboard in another's folder" 0 "$work/pub/planted.*belongs to" train job.toml --run.directory second --report.tensorboard "$work/pub/planted"
empty "$work/pub/planted"
expect "another's run directory" 65 "belongs to user $attacker" train job.toml --run.directory "$work/pub/planted"
expect "an export into it" 65 "everybody may write into $work/pub/planted" export hf run -o "$work/pub/planted/model"
expect "bench's folder" 65 "(belongs to|everybody may write).*" bench --stages 0 --budget 1s --folder "$work/pub/planted"
expect "bench's history" 65 "belongs to user $attacker" bench --stages 0 --budget 1s --folder bench --history "$work/pub/planted"
empty "$work/pub/planted"

# ---- a cache that somebody else filled
cache="--data.format auto --data.cache $work/pub/cache --data.tokenizer $work/tokenizer.json --model.name gpt2-mini"
as $attacker mkdir "$work/pub/cache" && cp -r "$work/home/run" "$work/theirs/run" && rm -rf "$work/theirs/run/"{step*,incarnations,outcome*,metrics*} && chown -R $attacker "$work/theirs/run"
# The model has fewer tokens than the tokenizer: this run ends behind the cache.
# shellcheck disable=SC2086 # a word each
as $attacker "$work/flotilla" train "$work/home/job.toml" --run.directory run $cache >"$work/said" 2>&1
bin=$(echo "$work"/pub/cache/*.bin)
if [ -s "$bin" ]; then head -c "$(stat -c %s "$bin")" /dev/zero >"$bin"; else wrong "the attacker has no cache" && cat "$work/said"; fi
new_run second
# shellcheck disable=SC2086
expect "a cache of another user" 65 "made by user $attacker" train job.toml --run.directory second $cache

# ---- pipes and requests that somebody planted, who may write in the run directory as one of its group
new_run pipes
for name in outcome.json launches profile-corrected.json; do as $victim mkfifo "pipes/$name"; done
as $victim mkfifo prometheus
as $victim sh -c 'echo "{}" >pipes/control.json'
chown $attacker "$work/home/pipes/control.json"
expect "pipes in the run directory" 0 finished train job.toml --run.directory pipes --report.prometheus prometheus
grep -q "control.json: belongs to user $attacker" "$work/said" || wrong "another's request was not refused"
grep -q "prometheus: is no regular file" "$work/said" || wrong "a pipe was taken for Prometheus' file"
gone "$work/home/pipes/control.json"
as $victim sh -c 'rm run/step-2/state.h5 && mkfifo run/step-2/state.h5'
expect "a checkpoint that is a pipe" 65 "regular file" inspect run/step-2

# ---- what is printed
printf '%s' '{"job": "\u001b]0;x\u0007\u009b31m\u202e"}' >"$work/words"
sed -i -E "s/\"(job|host)\": \"[^\"]*\"/\"\1\": \"\\\\u001b]0;x\\\\u0007\\\\u009b31m\\\\u202e\"/g" "$work/home/pipes/incarnations/1.json" "$work/home/pipes/metrics.jsonl"
grep -q 'u202e' "$work/home/pipes/incarnations/1.json" || wrong "nothing was planted in incarnations/1.json"
as $victim rm -f pipes/outcome.json
hostile=$(printf '\033]0;x\007\302\2331m\342\200\256')
for words in "report pipes" "report pipes --format json" "inspect pipes" "inspect $hostile" "export hf $hostile -o x" "train $hostile.toml" "$hostile"; do
  # shellcheck disable=SC2086
  as $victim "$work/flotilla" $words >"$work/said" 2>&1
  if LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]' "$work/said"; then wrong "raw control characters are printed: flotilla $words" && cat -v "$work/said"; fi
  [ -s "$work/said" ] || wrong "flotilla $words says nothing"
done

# ---- the run directory of a job script
own_run() { # CODE PATTERN FOLDER
  as $victim env SLURM_JOB_ID=7 FLOTILLA_RUN="$3" FLOTILLA="$work/flotilla" bash -c '. "$0"; flotilla_check; flotilla_own_run' "$work/flotilla.sh" >"$work/said" 2>&1
  [ $? -eq "$1" ] && { [ -z "$2" ] || grep -q -- "$2" "$work/said"; } || { wrong "a job script with FLOTILLA_RUN=$3; expected $1, $2" && cat "$work/said"; }
}
cp "$source_dir/slurm/flotilla.sh" "$work" && chmod 755 "$work/flotilla.sh"
own_run 65 "belongs to another user" "$work/pub/planted"
own_run 65 "everybody may write into $work/theirs/open" "$work/theirs/open/mine"
own_run 0 "" "$work/home/run"
own_run 0 "" -p
[ -d "$work/home/-p" ] || wrong "a run directory whose name begins with - was not made"

# ---- submit: sbatch gets the script that was made, whoever of the run directory's group puts another in its place
cp -r "$source_dir/tests/app/sites/c03-gres-of-the-manual" "$work/site"
site_commands "$work/bin" "$work/site"
# As sbatch: the file of that name, else standard input. It starts when the other user has been faster.
cat >"$work/bin/sbatch" <<'S'
#!/bin/bash
until grep -q planted group/submit.sh; do sleep 0.05; done
case ${!#} in -*) cat ;; *) cat "${!#}" ;; esac >submitted
echo 9
S
chmod 755 "$work"/bin/*
chmod -R a+rX "$work/site" "$work/bin"
new_run group
chown $victim:$attacker "$work/home/group" && chmod 770 "$work/home/group"
as $attacker sh -c 'while [ -d "$0" ]; do echo planted >script; mv -f script "$0/submit.sh"; done' "$work/home/group" >"$work/swaps" 2>&1 &
swapping=$!
as $victim env PATH="$work/bin:/usr/bin:/bin" timeout -k 5 "$hang_bound" "$work/flotilla" submit job.toml --run.directory group --submit.library "$work/flotilla.sh" >"$work/said" 2>&1 </dev/null || { wrong "submit: exit code $?" && cat "$work/said"; }
mv "$work/home/group" "$work/home/submitted-from"
wait $swapping
grep -q flotilla_job "$work/home/submitted" && ! grep -q planted "$work/home/submitted" || wrong "sbatch was given another user's script"

# ---- Open MPI's session folder, whose name somebody has taken
as $attacker mkdir -m 777 "$work/pub/flotilla-$victim-7"
# shellcheck disable=SC2016
as $victim env TMPDIR="$work/pub" SLURM_JOB_ID=7 bash -c '. "$0"; exec bash -c "$flotilla_in_plain_rank" bash -c '"'"'stat -c "%a %u" "$OMPI_MCA_orte_tmpdir_base"; umask'"'" "$work/flotilla.sh" >"$work/said" 2>&1
holds "$work/said" "700 $victim"$'\n'0077

# ---- a node's /dev/shm: who fills it drains no node, what the system's accounts left does
prolog() { # USER CODE
  # shellcheck disable=SC2016
  unshare -m bash -c 'mount -t tmpfs -o size=8m,mode=1777 tmpfs /dev/shm && setpriv --reuid="$1" --regid="$1" --clear-groups dd if=/dev/zero of=/dev/shm/full bs=1M count=6 status=none && exec "$0"' "$source_dir/slurm/hooks/prolog.sh" "$1" >"$work/said" 2>&1
  [ $? -eq "$2" ] && grep -q "^flotilla prolog: /dev/shm is 75 % full" "$work/said" || { wrong "prolog.sh, /dev/shm filled by user $1" && cat "$work/said"; }
}
if unshare -m true 2>/dev/null; then prolog $attacker 0 && prolog 1 1; else echo "not tried: prolog.sh, for this root may not mount"; fi

holds "$secret" precious
[ "$failures" -eq 0 ]
