#!/bin/sh
# A certificate of each kind of goal is written, checked and tampered with.  usage: certificate_test.sh FLOTILLA CHECKER FOLDER
set -eu
flotilla=$1 checker=$2 folder=$3
mkdir -p "$folder"
job="--model.name=opt-125m --training.global-batch=64 --training.length=256"
for case in "one --pool=A100-40=16/8" \
            "two --pool=A100-40@a=16/8 --pool=V100-16@b=24/8 --limit.devices=30" \
            "cost --pool=A100-40=8 --pool=V100-16=8 --price=A100-40=3USD/h --price=V100-16=1USD/h --objective.minimise=cost"; do
  set -- $case
  name=$1
  shift
  "$flotilla" plan $job "$@" --certificate "$folder/$name.json" > "$folder/$name.txt"
  "$checker" --self-test "$folder/$name.json"
done
# Where time ends before a proof, the answer is written, and the certificate is not.
code=0
"$flotilla" plan --model.name=llama-3-8b --training.global-batch=64 --training.length=2048 --pool=A100-40@a=8/4 --pool=T4@b=16/4 \
  --search.time-limit=1ms --certificate "$folder/none.json" -o "$folder/none.txt" 2>"$folder/refusal" || code=$?
[ "$code" -eq 69 ] && [ ! -e "$folder/none.json" ] && grep -q "^plan " "$folder/none.txt" && grep -q "none.json was not written" "$folder/refusal" ||
  { cat "$folder/refusal" && echo "an answer without a proof: exit code $code" && exit 1; }
