#!/usr/bin/env bash
# Fine-tunes a model on conversations and plain text, all of it and by LoRA, and takes the results to Hugging Face tools.
#
#   examples/finetune.sh            install what is missing, build in build/, pretrain, fine-tune (four to seven minutes on two cores)
#
# The model is small and made here, so nothing is downloaded: it is pretrained on plain text and exported, and that directory stands for
# one from a hub. Everything is in runs/finetune, made anew each time. Exit code 0, or that of the step that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/launch.sh

work=runs/finetune
pretraining_steps=${FLOTILLA_EXAMPLE_STEPS:-200} tuning_steps=${FLOTILLA_EXAMPLE_STEPS:-200}

# A Llama of a third of a million parameters for the tokenizer beside this script.
model_config() {
  cat <<END
{"model_type": "llama", "vocab_size": 513, "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 6,
 "num_key_value_heads": 3, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
 "hidden_act": "silu"}
END
}

# What a model's directory has beside its weights: its tokenizer, and how it writes conversations.
add_tokenizer() {
  cp examples/tokenizer.json examples/chat.jinja "$1"
  mv "$1/chat.jinja" "$1/chat_template.jinja"
  echo '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}' >"$1/tokenizer_config.json"
}

# Questions and answers, one conversation on each line.
conversations() {
  local a b
  for a in $(seq 1 30); do
    for b in $(seq 1 30); do
      echo "{\"messages\": [{\"role\": \"user\", \"content\": \"What is $a plus $b?\"}, {\"role\": \"assistant\", \"content\": \"It is $((a + b)).\"}]}"
    done
  done
}

# A job with both kinds of data: of conversations, what the assistant says counts in the loss; of text, everything. Its run directory.
tuning_job() {
  cat <<END
[model]
weights = "$work/base-model"

[data]
tokenizer = "$work/base-model/tokenizer.json"
cache = "$work/tokens"
validation-fraction = 0.1

[[data.source]]
name = "conversations"
files = ["$work/conversations.jsonl"]
weight = 0.8

[[data.source]]
name = "text"
files = ["$text"]
weight = 0.2

[training]
steps = $tuning_steps
global-batch = 16
length = 96
learning-rate = 3e-3
warmup-steps = 10
evaluate-every = $((tuning_steps / 2))
evaluate-sequences = 4

[run]
directory = "$1"
log-every = 50
END
}

# Whether this Python has some modules, and if not, a line that says so.
python_has() {
  python3 -c "import $1" 2>/dev/null && return
  echo ">>> this Python lacks one of $1: what was exported is not loaded there"
  return 1
}

# Loads the directory of a model in transformers, and with a third argument a LoRA adapter upon it in PEFT; computes the loss of a text there.
in_python() {
  python3 - "$@" <<'END'
import sys
import torch
import transformers

model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], torch_dtype=torch.float32)
where = "transformers"
if len(sys.argv) > 3:
    import peft

    model = peft.PeftModel.from_pretrained(model, sys.argv[3])
    where = "PEFT"
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
tokens = tokenizer(open(sys.argv[2], encoding="utf-8").read(), add_special_tokens=False, return_tensors="pt").input_ids[:, :256]
with torch.no_grad():
    print(f">>> in {where}: loss {model(tokens, labels=tokens).loss.item():.4f} of the first {tokens.shape[1]} tokens")
END
}

build_flotilla
rm -rf "$work"
mkdir -p "$work"
read -r text < <(plain_texts)
model_config >"$work/config.json"
conversations >"$work/conversations.jsonl"

echo
echo ">>> pretraining on plain text, two ranks"
(flotilla_on 2 train --model.config "$work/config.json" --data.train "$text" --data.tokenizer examples/tokenizer.json --data.cache "$work/tokens" \
  --training.steps "$pretraining_steps" --training.global-batch 16 --training.length 96 --training.learning-rate 3e-3 --training.warmup-steps 10 \
  --run.directory "$work/base-run" --run.log-every 50)
build/src/app/flotilla export hf "$work/base-run" -o "$work/base-model"
add_tokenizer "$work/base-model"

echo
echo ">>> the directory of weights, as it would come from a hub, is checked"
build/src/app/flotilla import hf "$work/base-model" -o "$work/weights.toml"

echo
echo ">>> fine-tuning on conversations and text, three ranks"
tuning_job "$work/tuned-run" >"$work/tune.toml"
(flotilla_on 3 train "$work/tune.toml")

echo
echo ">>> a question to the tuned model"
question=$(printf '<user>\nWhat is 3 plus 4?\n<assistant>\n.')
build/src/app/flotilla generate "$work/tuned-run" "${question%.}" --tokens 12

echo
echo ">>> the loss of the answers, of the model before and after"
tail -90 "$work/conversations.jsonl" >"$work/held.jsonl"
build/src/app/flotilla tokenize --tokenizer "$work/base-model/tokenizer.json" "$work/held.jsonl" --append-eod -o "$work/answers" >/dev/null
build/src/app/flotilla evaluate "$work/base-model" --data "$work/answers.bin"
build/src/app/flotilla evaluate "$work/tuned-run" --data "$work/answers.bin"

echo
echo ">>> the tuned model as a directory for Hugging Face tools"
build/src/app/flotilla export hf "$work/tuned-run" -o "$work/tuned-model"
ls "$work/tuned-model"
if python_has torch,transformers; then in_python "$work/tuned-model" "$text"; fi

echo
echo ">>> the same with LoRA: adapters alone are trained, two ranks"
tuning_job "$work/lora-run" >"$work/lora.toml"
(flotilla_on 2 train "$work/lora.toml" --lora.rank 8 --lora.alpha 16)
build/src/app/flotilla evaluate "$work/lora-run" --data "$work/answers.bin"

echo
echo ">>> merged with the weights, and as an adapter beside them"
build/src/app/flotilla export hf "$work/lora-run" -o "$work/lora-model"
build/src/app/flotilla export hf "$work/lora-run" --adapter -o "$work/lora-adapter"
ls "$work/lora-model" "$work/lora-adapter"
if python_has torch,transformers; then in_python "$work/lora-model" "$text"; fi
if python_has torch,transformers,peft; then in_python "$work/base-model" "$text" "$work/lora-adapter"; fi
