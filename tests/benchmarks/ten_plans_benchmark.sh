#!/usr/bin/env bash
# Issue 18: ten plans forecast from what `flotilla bench` wrote, within 5 % in the mean of what is measured. One and two ranks; data, pipeline
# (microbatches, three schedules) and tensor parallel; a sharded optimizer, recomputation, uneven shares, fp32 and bf16. Prints forecast
# beside measured. About five minutes, on a machine with two processors that runs nothing else.
#
#   tests/benchmarks/ten_plans_benchmark.sh            build/ holds a Release build with flotilla and selfcheck_benchmark
#   ROUNDS=5 PROBE=20s BUILD=build tests/benchmarks/ten_plans_benchmark.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(realpath "${BUILD:-build}") rounds=${ROUNDS:-5}
export FLOTILLA_PROBE_BUDGET=${PROBE:-20s}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here"

# Large enough that products and memory decide, not the threads' wakes; small enough for ten plans in minutes.
cat >config.json <<'JSON'
{"model_type": "gpt2", "activation_function": "gelu_new", "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 256, "vocab_size": 4096,
 "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-05}
JSON
cat >job.toml <<'TOML'
[model]
config = "config.json"
[training]
length = 128
global-batch = 8
TOML

ranks() { mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$@"; }
for precision in fp32 bf16; do
  FLOTILLA_TRAINING_PRECISION=$precision ranks "$build/src/app/flotilla" bench --stages 0 --budget 1s --bench.disk-size 4MiB \
    --profile "$precision.json" --profile-job job.toml >bench.log 2>&1 || test $? -eq 1 || { cat bench.log >&2; exit 1; }
done
ranks "$build/tests/benchmarks/selfcheck_benchmark" --ten --model config.json --from fp32.json --from bf16.json --rounds "$rounds"
