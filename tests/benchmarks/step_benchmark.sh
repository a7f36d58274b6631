#!/usr/bin/env bash
# A training step of ours beside PyTorch's: same model, batch, threads and precision, in turns, so that a machine that changes its speed
# changes both. Prints per-round medians, their ratio, and the median ratio with its range.
#
#   tests/benchmarks/step_benchmark.sh PYTHON     PYTHON has torch; build/ holds a Release build
#   BLOCKS=2 LENGTH=512 SEQUENCES=2 STEPS=5 ROUNDS=5 THREADS=2 tests/benchmarks/step_benchmark.sh PYTHON
#   DEVICE=gpu BLOCKS=12 LENGTH=1024 SEQUENCES=16 STEPS=20 ROUNDS=3 tests/benchmarks/step_benchmark.sh PYTHON
#
# GPT-2-small's layers (hidden 768, 12 heads, vocabulary 50257), BLOCKS of them; no dropout. bf16 is set beside the faster of PyTorch's two
# ways (autocast, bf16 weights), on a GPU of its compiled ways. Both sides: forward, backward, clipping, AdamW.
# FLOTILLA names another program, PRECISIONS what is tried.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${1:?give a Python that has torch}
blocks=${BLOCKS:-2} length=${LENGTH:-512} sequences=${SEQUENCES:-2} steps=${STEPS:-5} rounds=${ROUNDS:-5} threads=${THREADS:-$(nproc)}
device=${DEVICE:-cpu} flotilla=${FLOTILLA:-build/src/app/flotilla}
torch=(--device cpu)
[ "$device" = gpu ] && torch=(--device cuda --compile --warm-up 4)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

cat >"$here/config.json" <<EOF
{"model_type": "gpt2", "n_embd": 768, "n_layer": $blocks, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
 "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "n_ctx": 1024}
EOF
head -c 300000 /dev/urandom | od -An -v -tu1 >"$here/text.txt"

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

ours() {
  rm -rf "$here/run"
  "$flotilla" train --model.config "$here/config.json" --data.train "$here/text.txt" --data.format text \
    --training.length "$length" --training.global-batch "$sequences" --training.steps $((steps + 1)) --device "$device" --training.precision "$1" \
    --training.warmup-steps 0 --plan.data 1 --plan.microbatch "$sequences" --plan.recompute none --run.threads "$threads" \
    --run.directory "$here/run" --probe.file "$here/profile-$1.json" >"$here/log" 2>&1 || { cat "$here/log" >&2; exit 1; }
  grep -v '"event"' "$here/run/metrics.jsonl" | sed -n 's/.*"step_seconds": \([0-9.e-]*\).*/\1/p' | tail -n +2 | median
}

theirs() {
  local variants=$1
  [ "$variants" = bf16 ] && variants="bf16_autocast bf16_weights"
  # shellcheck disable=SC2086
  OMP_NUM_THREADS=$threads "$python" tests/reference/benchmark_step.py "${torch[@]}" --model gpt2 --blocks "$blocks" --length "$length" \
    --sequences "$sequences" --threads "$threads" --steps "$steps" --dropout 0 --fused --precision $variants |
    sed -n 's/.*"median_step_seconds": \([0-9.e-]*\).*/\1/p' | sort -g | head -1
}

echo "GPT-2-small layers: $blocks blocks and head, $sequences x $length tokens, $threads threads, on the $device; seconds a step, median of $steps"
for precision in ${PRECISIONS:-fp32 bf16}; do
  ratios=""
  for round in $(seq "$rounds"); do
    a=$(ours "$precision") b=$(theirs "$precision")
    ratio=$(awk -v a="$a" -v b="$b" 'BEGIN {printf "%.3f", b / a}')
    printf '%s round %d  ours %.3f  PyTorch %.3f  PyTorch / ours %s\n' "$precision" "$round" "$a" "$b" "$ratio"
    ratios="$ratios $ratio"
  done
  sorted=$(tr ' ' '\n' <<<"$ratios" | sed '/^$/d' | sort -g)
  echo "$precision: PyTorch takes $(median <<<"$sorted") times as long (median of $rounds; $(head -1 <<<"$sorted") to $(tail -1 <<<"$sorted"))"
done
