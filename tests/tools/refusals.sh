#!/usr/bin/env bash
# Provokes 50 refusals, as users meet them, and prints each command, its exit code and its one line: to be read as a stranger would.
# docs/measurements/refusals.md has the verdicts. Fails where a command is not refused, or not in one line.
#
#   refusals.sh FLOTILLA SOURCE_DIR
set -euo pipefail
flotilla=$(realpath "$1") source_dir=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
ln -s "$source_dir/examples" examples
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for _ in $(seq 200); do echo 'to be or not to be, that is the question'; done >text.txt
printf '{"text": "to be"}\n{"text": null}\n' >bad.jsonl
printf '{"txt": "to be"}\n' >fieldless.jsonl
printf '[trainig]\nsteps = 3\n' >section.toml
printf '[training]\nstesp = 3\n' >key.toml
printf '[training]\nsteps = "many"\n' >word.toml
printf '[training\nsteps = 3\n' >broken.toml
printf '{"format": "flotilla-plan", "version": 99}\n' >version.json
printf '{"model_type": "mamba", "hidden_size": 64}\n' >mamba.json
printf '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "mish"}\n' >odd.json
printf '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}\n' >rope.json
head -c 3000 /dev/zero >zero.npy
mkdir empty
plan=(plan --model.name gpt2 --training.global-batch 64)
small=(--data.format text --training.length 16 --training.global-batch 4 --training.steps 2 --run.threads 1 --probe.budget 100ms)
tiny=(train --model.name gpt2-tiny --data.train text.txt --data.format text --training.steps 2 --probe.budget 100ms)
"$flotilla" train --model.name gpt2-tiny --data.train text.txt "${small[@]}" --run.directory run >out 2>err </dev/null || { cat err && exit 1; }

number=0 wrong=0
try() { # WORDS of flotilla
  local code=0
  "$flotilla" "$@" >out 2>err </dev/null || code=$?
  number=$((number + 1))
  printf '%d. `flotilla %s` (%d)\n' "$number" "$*" "$code"
  grep 'flotilla: error: ' err | sed -e "s#$scratch/##g" -e 's/^flotilla: error: /   /' || true
  if [ "$code" -lt 64 ] || [ "$(grep -c 'flotilla: error: ' err)" -ne 1 ]; then
    wrong=$((wrong + 1)) && echo "   NO REFUSAL IN ONE LINE" && cat err
  fi
}

try trian
try train --no-such-option
try train --training.learning-rat 1e-3
try train --training.steps
try train --training.steps many
try train --training.steps -1
try train missing.toml
try train section.toml
try train key.toml
try train word.toml
try train broken.toml
try train --model.name gpt2-tiny
try train --model.name gpt2-tiny --data.train missing.txt
try train --model.name gpt2-tiny --data.train "*.bin"
try train --model.name gpt2-tiny --data.train zero.npy
try train --model.name gpt2-tiny --data.train fieldless.jsonl
try train --model.name gpt2-tiny --data.train text.txt --data.tokenizer missing.json
try train --model.name gpt5 --data.train text.txt
try train --model.config mamba.json --data.train text.txt
try train --model.config odd.json --data.train text.txt
try train --model.config rope.json --data.train text.txt
try "${tiny[@]}" --training.length 100000
try "${tiny[@]}" --training.learning-rate 1e40
try "${tiny[@]}" --device gpu
try "${tiny[@]}" --plan.tensor 3
try "${tiny[@]}" --plan version.json
try "${tiny[@]}" --device.memory 1MiB
try "${tiny[@]}" --run.directory text.txt
try train --model.name gpt2-tiny --data.train text.txt "${small[@]}" --run.directory run --training.seed 2
try train --model.name gpt2-mini --data.train text.txt "${small[@]}" --run.directory run
try "${plan[@]}"
try "${plan[@]}" --pool A1000=4
try "${plan[@]}" --pool A100-40
try "${plan[@]}" --pool A100-40=0
try plan --model.name llama-2-70b --training.global-batch 64 --pool T4=1
try "${plan[@]}" --pool A100-40=4 --limit.iteration-cost 1usd
try "${plan[@]}" --pool A100-40=4 --max-cost 3
try "${plan[@]}" --pool A100-40=4 --restrict nothing-of-mine
try plan --model.name gpt2 --pool A100-40=4
try simulate version.json
try simulate examples/two-stages.json
try inspect empty
try inspect missing
try report empty
try tokenize bad.jsonl --tokenizer examples/tokenizer.json -o tokens
try tokenize text.txt --tokenizer text.txt -o tokens
try import hf empty -o imported
try export hf run -o text.txt/model
try generate run --prompt "to be" --generate.tokens -3
try submit examples/opt-125m.toml
echo "$number refusals, $wrong of them not in one line"
[ "$number" -eq 50 ] && [ "$wrong" -eq 0 ]
