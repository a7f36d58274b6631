#!/usr/bin/env bash
# Every file and folder that the program and the job scripts write is in the table "What is written" of docs/security.md, with the command that
# writes it; and all that the table says is written. Seen by strace: what is opened for writing, made, renamed, linked, cut.
#
#   written_files.sh PROGRAM SOURCE_DIR
#
# Exit code 77: skipped, without strace.
set -uo pipefail
program=$(realpath "$1") source_dir=$(realpath "$2")
command -v strace >/dev/null || { echo "SKIPPED: strace is not here" && exit 77; }
strace -qq -o /dev/null true 2>/dev/null || { echo "SKIPPED: strace may trace nothing here" && exit 77; }
# shellcheck source=tests/support/waiting.sh
. "$source_dir/tests/support/waiting.sh"
# shellcheck source=tests/support/site_commands.sh
. "$source_dir/tests/support/site_commands.sh"

work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
mkdir "$work/user" "$work/tmp" "$work/bin" "$work/traces"
cd "$work/user" || exit 1
export TMPDIR=$work/tmp OMP_NUM_THREADS=1 PATH=$work/bin:$PATH HOME=$work/user

# The table's names: RUN, a run directory; OUT, a file or folder that the user names; TMP, TMPDIR or /tmp; DIR, a folder of an option's.
# HEX and N stand for digits, HOST for the node's name. A name that a file bears until it is renamed is left out.
calls='open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,truncate,mknod,mknodat'
# shellcheck disable=SC2016 # awk's
paths_of='
  function absolute(folder, name) { return name ~ /^\// ? name : folder "/" name }
  # "NAME" or FOLDER<PATH>, "NAME": the last one of the call is what is made.
  / = -1 / || !/^[a-z0-9]+\(/ { next }
  /^(open|openat)\(/ && !/O_(WRONLY|RDWR|CREAT)/ { next }
  {
    call = $0; sub(/\(.*/, "", call)
    folder = cwd
    while (match($0, /(<[^<>]*>, )?"[^"]*"/)) {
      word = substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH)
      if (word ~ /^</) { folder = word; sub(/>.*/, "", folder); sub(/^</, "", folder) } else folder = cwd
      sub(/^[^"]*"/, "", word); sub(/"$/, "", word)
      path = absolute(folder, word)
      if (call ~ /^(open|openat|creat|mkdir|mkdirat|truncate|mknod|mknodat)$/) break
    }
    print path
  }'
table_names() {
  sed -E -e 's|/(\./)*|/|g; s|/+|/|g' -e "s|^$work/user/run[0-9]*(/\|$)|RUN\1|; s|^$work/user/out[^/]*|OUT|; s|^$work/user/([a-z]+)|DIR \1|; s|^($work/tmp\|/tmp)(/\|$)|TMP\2|" \
    -e "s/$(uname -n | sed 's/\..*//')/HOST/g" -e 's/(\.[0-9a-f]{16}\.(tmp|own))+//; s/\.[A-Za-z0-9]{8}\.own//; s/[0-9a-f]{16}/HEX/g' \
    -e "s/-[A-Za-z0-9]{6,8}(\/|$)/-HEX\1/" -e 's/[0-9]+/N/g' |
    grep -vE '^/(dev/(null|tty|pts/.*|fd/N|N)|proc/.*|sys/.*)$'
}
# trace CODES COMMAND WORDS...: what they write is COMMAND's; they end with one of these codes.
trace() {
  local codes=$1 command=$2 code
  shift 2
  rm -f "$work"/traces/*
  strace -ff -y -qq --seccomp-bpf -s 4096 -e signal=none -e trace="$calls" -o "$work/traces/t" "$@" >"$work/said" 2>&1 </dev/null
  code=$?
  case " $codes " in *" $code "*) ;; *) fail "$* ended with $code: $(tail -3 "$work/said")" ;; esac
  cat "$work"/traces/* | awk -v cwd="$PWD" "$paths_of" | table_names | sort -u | sed "s/\$/\t$command/" >>"$work/seen"
}
flotilla() { trace 0 "$1" "$program" "$@"; }

head -c 8000 "$source_dir/README.md" >text.txt
cat >job.toml <<'T'
model.name = "gpt2-tiny"
data = { train = ["text.txt"], format = "text" }
training = { steps = 2, global-batch = 4, length = 16 }
checkpoint.every = 2
probe.budget = "1s"
run.directory = "run"
T
flotilla train job.toml --report.tensorboard tensorboard --report.prometheus out.prom --report.timeline out.timeline
flotilla export hf run -o outmodel
flotilla export llmc run -o out.llmc
flotilla import llmc out.llmc -o outagain
mkdir run2 && cp run/profile.json run2
flotilla train job.toml --run.directory run2 --model.weights outmodel --checkpoint.local "$PWD/local"
# The model has fewer tokens than the tokenizer: this run ends behind the cache.
mkdir run6 && cp run/profile.json run6
trace 65 train "$program" train job.toml --run.directory run6 --data.format auto --data.tokenizer "$source_dir/examples/tokenizer.json" --data.cache cache
flotilla tokenize --tokenizer "$source_dir/examples/tokenizer.json" text.txt -o outtokens
flotilla probe job.toml --probe.file out.probe
flotilla inspect run/step-2 --write-plan out.plan
flotilla plan job.toml --profiles run/profile.json --write-plan out.chosen --html out.html --certificate out.certificate -o out.words
flotilla simulate out.plan --profiles run/profile.json --timeline out.forecast -o out.words
flotilla report run --html out.report -o out.words
flotilla evaluate run --data text.txt -o out.scores
flotilla generate run abc -o out.text
flotilla doctor job.toml
# Where others work beside it, a node is one to watch: 1.
trace "0 1" bench "$program" bench --stages 0 --budget 1s --folder bench --history history --html out.bench --prometheus out.figures --reframe out.reframe -o out.json
flotilla import osu "$source_dir/tests/fuzz/intact/osu.txt" --hosts n1,n2 -o out.osu
cat >published.json <<'T'
{"format": "published-runs", "version": 1, "source": {}, "runs": [{"id": "one",
  "hardware": {"device_type": "H100-SXM5-80", "devices": 8, "devices_per_node": 8}, "runtime": "torchtitan",
  "model": {"family": "gpt3", "layers": 24, "hidden": 4096, "heads": 32, "vocabulary": 50304}, "parallel": {"tensor": 1, "data": 8, "zero": 3},
  "batch": {"global_sequences": 16, "microbatch": 2}, "sequence_length": 2048, "precision": "bf16", "measured": {"iteration_seconds": 1},
  "complete": true}]}
T
flotilla import published published.json -o published
flotilla validate published.json --html out.validation -o out.words

# A run that goes on, and is asked for the plan that it has.
mkdir run3 && cp run/profile.json run3
"$program" train job.toml --run.directory run3 --training.steps 1000000 --checkpoint.every 1000000 >/dev/null 2>&1 &
trainer=$!
until_true test -s run3/metrics.jsonl
trace "0 65" control "$program" control run3 --plan out.plan
kill -KILL $trainer
wait $trainer 2>/dev/null

# A site, and a job of one node there, whose srun runs the ranks here.
site_commands "$work/bin" "$source_dir/tests/app/sites/c03-gres-of-the-manual"
printf '#!/bin/bash\ncat >/dev/null\necho 9\n' >"$work/bin/sbatch"
printf '#!/bin/bash\n[ "${!#}" != here ] || { echo here && exit; }\nwhile [ $# -gt 0 ] && [ "$1" != bash ]; do shift; done\nunset "${!SLURM_@}"\nexec "$@"\n' >"$work/bin/srun"
chmod +x "$work"/bin/*
flotilla submit job.toml --run.directory run4 --submit.library "$source_dir/slurm/flotilla.sh"
mkdir run5 && cp run/profile.json run5
# shellcheck disable=SC2016
FLOTILLA=$program FLOTILLA_RUN=$PWD/run5 SLURM_JOB_ID=7 trace 0 flotilla.sh bash -c '. "$0/slurm/flotilla.sh" && flotilla_job train job.toml' "$source_dir"

# What it writes where launches are lost or the disk is full.
# shellcheck disable=SC2016
FLOTILLA=$program FLOTILLA_RUN=$PWD/run5 SLURM_JOB_ID=7 trace 0 flotilla.sh bash -c '. "$0/slurm/flotilla.sh" && flotilla_check && flotilla_has_room && flotilla_tries=0 flotilla_tried_at="" && flotilla_made_progress' "$source_dir"

# The table's rows, a pattern and a command a line.
awk -F' *[|] *' '/^## /{ours = /^## What is written/} ours && /^\| `/ {
  names = $2; sub(/`:.*/, "`", names)
  count = split(names, patterns, /` ?`?/); commands = split($3, command, / *, */)
  for (i in patterns) if (patterns[i] != "") for (j in command) print patterns[i] "\t" command[j]
}' "$source_dir/docs/security.md" >"$work/table"
[ "$(wc -l <"$work/table")" -gt 40 ] || fail "docs/security.md has no table \"What is written\""

failures=0
# Whether the command writes into what the pattern names.
same() { [ "$2" = "$4" ] && [[ $1 == $3 ]]; }
while IFS=$'\t' read -r path command; do
  found=no
  while IFS=$'\t' read -r pattern writer; do if same "$path" "$command" "$pattern" "$writer"; then found=yes; fi; done <"$work/table"
  [ $found = yes ] || { echo "FAILED: $command writes $path, which the table of docs/security.md does not say" && failures=$((failures + 1)); }
done < <(sort -u "$work/seen")
while IFS=$'\t' read -r pattern writer; do
  found=no
  while IFS=$'\t' read -r path command; do if same "$path" "$command" "$pattern" "$writer"; then found=yes; fi; done <"$work/seen"
  [ $found = yes ] || { echo "FAILED: docs/security.md says that $writer writes $pattern; it does not" && failures=$((failures + 1)); }
done <"$work/table"
echo "$(sort -u "$work/seen" | wc -l) paths of commands, $(wc -l <"$work/table") of the table"
[ "$failures" -eq 0 ]
