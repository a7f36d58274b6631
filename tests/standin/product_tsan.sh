#!/usr/bin/env bash
# The whole product under TSan on stand-in GPUs: no race. Then with an event that its program does not wait for: a race, which is found.
#
#   product_tsan.sh SOURCE_DIR FLOTILLA STANDIN_FOLDER MPIRUN...     flotilla_tsan and the libraries beside it
set -euo pipefail
source_dir=$1 flotilla=$2 lib=$3
shift 3
mpirun=("$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export LD_LIBRARY_PATH=${lib}_nccl:$lib FLOTILLA_STANDIN_KERNELS=$lib/libstandin_kernels_tsan.so FLOTILLA_GPU_KERNELS=$lib/libstandin_kernels_tsan.so
export FLOTILLA_STANDIN_DEVICES=h100,h100 OMP_NUM_THREADS=1
# UCX's hooks in the allocator run where a thread's end has already taken TSan's state of it.
export UCX_MEM_EVENTS=no UCX_MEM_MMAP_HOOK_MODE=none
# Mutexes are Open MPI's: what it locks in which order is its own matter. Copies of the stand-in's streams count, so no module is left out.
export TSAN_OPTIONS="suppressions=$source_dir/tests/cmake/tsan.supp:print_suppressions=0:exitcode=66:detect_deadlocks=0:report_destroy_locked=0:report_mutex_bugs=0"
head -c 20000 "$source_dir/docs/gpu.md" >"$scratch/text.txt"
# Models so small that kernels on fibers take seconds.
cat >"$scratch/gpt2.json" <<'END'
{"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 64, "vocab_size": 256, "activation_function": "gelu_new",
 "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.0}
END
cat >"$scratch/llama.json" <<'END'
{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
 "intermediate_size": 24, "max_position_embeddings": 64, "vocab_size": 256, "hidden_act": "silu", "rms_norm_eps": 1e-5,
 "rope_theta": 10000.0, "tie_word_embeddings": false}
END

# train NAME RANKS MODEL options...: one run; what it and TSan say goes to NAME.log.
train() {
  local name=$1 ranks=$2 model=$3
  shift 3
  "${mpirun[@]}" -n "$ranks" "$flotilla" train --device=gpu --training.precision=fp32 --model.config="$scratch/$model.json" \
    --run.directory="$scratch/$name" --data.train="$scratch/text.txt" --data.format=text --training.length=8 --training.global-batch=4 \
    --training.steps=2 --run.threads=1 --probe.budget=100ms --probe.file="$scratch/profile-$ranks-$model.json" "$@" \
    >"$scratch/$name.log" 2>&1
}
clean() {
  train "$@" || { cat "$scratch/$1.log" && echo "$1: failed under TSan" && exit 1; }
  ! grep -q "WARNING: ThreadSanitizer" "$scratch/$1.log" || { cat "$scratch/$1.log" && echo "$1: TSan reports" && exit 1; }
  echo "$1: no race"
}
# found NAME EVENT options...: as `clean`, but streams do not wait for that event.
found() {
  local name=$1 event=$2
  shift 2
  ! FLOTILLA_STANDIN_FAULTS=forget@$event train "$name" "$@" || { cat "$scratch/$name.log" && echo "$name: not found" && exit 1; }
  grep -q "WARNING: ThreadSanitizer: data race" "$scratch/$name.log" || { cat "$scratch/$name.log" && echo "$name: not found" && exit 1; }
  echo "$name: without event $event, TSan finds the race"
}

clean one-rank 1 gpt2
clean stages-over-nccl 2 llama --plan.pipeline=2 --comm.transport=nccl
clean stages-over-mpi 2 gpt2 --plan.pipeline=2 --comm.transport=mpi
clean replicas 2 gpt2 --plan.data=2 --comm.transport=mpi
clean tensor-parallel 2 llama --plan.tensor=2 --comm.transport=nccl
found forgotten-event 12 2 gpt2 --plan.pipeline=2 --comm.transport=mpi
