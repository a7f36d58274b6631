#!/usr/bin/env python3
"""Holds Flotilla to the `transformers` of PyPI for every family: random tiny models go in, train there and here, and come out again.

usage: live_families.py FLOTILLA [MODEL...]

For each model:
- an import and an export give its tensors, bit by bit;
- 20 steps from its weights have PyTorch's losses, under three plans;
- 20 more steps from what Flotilla exported then have the same losses in PyTorch and in Flotilla.

Both sides compute in fp32. MPIRUN in the environment names the launcher. Exit code 77 where the packages are missing.
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}; pip install torch transformers")
    sys.exit(77)

SEQUENCES, LENGTH, STEPS = 4, 10, 20
RATE, CLIP, BETAS, EPSILON, DECAY = 1e-3, 1.0, (0.9, 0.95), 1e-8, 0.1
PLANS = [dict(data=1, pipeline=1, tensor=1), dict(data=2, pipeline=1, tensor=1), dict(data=1, pipeline=2, tensor=2)]
# Relative, of the first loss and of any later one: Adam and ReLU make more of a difference in the last bits.
FIRST_LOSS, ANY_LOSS = 1e-5, 1e-4

GPT2 = dict(n_layer=2, n_embd=24, n_head=3, n_positions=12, vocab_size=61, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=0, eos_token_id=0)
OPT = dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=3, ffn_dim=58, max_position_embeddings=12, vocab_size=61, dropout=0.0,
           attention_dropout=0.0, pad_token_id=None)
LLAMA = dict(num_hidden_layers=2, hidden_size=24, intermediate_size=34, max_position_embeddings=12, vocab_size=61, num_attention_heads=6,
             num_key_value_heads=3, pad_token_id=None, bos_token_id=0, eos_token_id=0)
NEOX = dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=3, intermediate_size=58, max_position_embeddings=12, vocab_size=61)
GEMMA = dict(**{**LLAMA, "num_hidden_layers": 4}, sliding_window=4)
STRETCHED = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                 original_max_position_embeddings=8)
MODELS = {
    "gpt2": transformers.GPT2Config(**GPT2),
    "opt": transformers.OPTConfig(**OPT, word_embed_proj_dim=24),
    "opt_post": transformers.OPTConfig(**OPT, do_layer_norm_before=False, word_embed_proj_dim=14),
    "gpt_neo": transformers.GPTNeoConfig(num_layers=2, attention_types=[[["global", "local"], 1]], window_size=4, hidden_size=24, num_heads=3,
                                         intermediate_size=58, max_position_embeddings=12, vocab_size=61, bos_token_id=0, eos_token_id=0),
    "llama": transformers.LlamaConfig(**LLAMA),
    "llama_stretched": transformers.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                                rope_parameters=STRETCHED),
    "llama_wide_heads": transformers.LlamaConfig(**LLAMA, head_dim=10),
    "mistral": transformers.MistralConfig(**LLAMA, sliding_window=4),
    "qwen2": transformers.Qwen2Config(**LLAMA),
    "qwen3": transformers.Qwen3Config(**LLAMA, head_dim=6),
    "qwen3_tied": transformers.Qwen3Config(**LLAMA, head_dim=8, attention_bias=True, tie_word_embeddings=True),
    "gpt_neox": transformers.GPTNeoXConfig(**NEOX),
    "gpt_neox_sequential": transformers.GPTNeoXConfig(**NEOX, use_parallel_residual=False, hidden_act="gelu_fast", attention_bias=False,
                                                      rope_parameters=dict(rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5)),
    # Caps and scores' widths that bend scores and logits of this size.
    "gemma2": transformers.Gemma2Config(**GEMMA, head_dim=6, query_pre_attn_scalar=5, attn_logit_softcapping=3.0,
                                        final_logit_softcapping=2.0),
    "gemma2_plain": transformers.Gemma2Config(**GEMMA, head_dim=8, attn_logit_softcapping=None, final_logit_softcapping=None,
                                              tie_word_embeddings=False, attention_bias=True),
    "gemma3": transformers.Gemma3TextConfig(**GEMMA, head_dim=6, layer_types=["sliding_attention", "full_attention"] * 2,
                                            rope_parameters={"sliding_attention": dict(rope_type="default", rope_theta=50.0),
                                                             "full_attention": dict(rope_type="linear", factor=4.0, rope_theta=1000.0)}),
    "bloom": transformers.BloomConfig(n_layer=2, hidden_size=24, n_head=3, vocab_size=61, bos_token_id=0, eos_token_id=0, pad_token_id=None),
}


def random_model(config, folder):
    """With norms and biases that are not trivial."""
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)


def batch(folder, vocabulary):
    """A file of exactly one batch: every step sees the same sequences, in some order."""
    stream = torch.randint(vocabulary, (SEQUENCES * LENGTH + 1,), generator=torch.Generator().manual_seed(3))
    path = folder / "batch.u16"
    path.write_bytes(stream.numpy().astype("<u2").tobytes())
    return path, stream[:-1].reshape(SEQUENCES, LENGTH), stream[1:].reshape(SEQUENCES, LENGTH)


def losses_of_pytorch(folder, inputs, targets):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() == 2], "weight_decay": DECAY},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=RATE, betas=BETAS, eps=EPSILON)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def train(flotilla, weights, data, directory, plan, rate=RATE, steps=STEPS):
    ranks = plan["data"] * plan["pipeline"] * plan["tensor"]
    options = {"model.weights": weights, "data.train": data, "data.format": "raw-uint16", "data.validation-fraction": 0,
               "training.steps": steps, "training.global-batch": SEQUENCES, "training.length": LENGTH, "training.learning-rate": rate,
               "training.minimum-learning-rate": 0, "training.learning-rate-schedule": "constant", "training.clip": CLIP,
               "training.beta1": BETAS[0], "training.beta2": BETAS[1], "training.epsilon": EPSILON, "training.weight-decay": DECAY,
               "plan.microbatch": 1, "run.directory": directory, "run.threads": 1, "probe.budget": "50ms",
               **{f"plan.{key}": degree for key, degree in plan.items()}}
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    launcher = shlex.split(os.environ.get("MPIRUN", "mpirun --oversubscribe --bind-to none"))
    run([*launcher, "-n", ranks, flotilla, "train", *words])
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "event" not in line]


def apart(got, want):
    assert len(got) == len(want) == STEPS, (len(got), len(want))
    relative = [abs(a - b) / abs(b) for a, b in zip(got, want)]
    assert relative[0] < FIRST_LOSS and max(relative) < ANY_LOSS, relative
    return max(relative)


def expect_same_tensors(found, expected):
    theirs = load_file(expected / "model.safetensors")
    ours = load_file(found / "model.safetensors")
    assert ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys())
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype and ours[name].numpy().tobytes() == tensor.contiguous().numpy().tobytes(), name
    return len(theirs)


def check(name, config, flotilla, folder):
    base, exported = folder / "base", folder / "exported"
    random_model(config, base)
    data, inputs, targets = batch(folder, config.vocab_size)
    # fp32 rounds this rate to zero: the step is taken, and changes nothing.
    train(flotilla, base, data, folder / "still", PLANS[-1], rate=1e-300, steps=1)
    run([flotilla, "export", "hf", folder / "still", "-o", folder / "same"])
    tensors = expect_same_tensors(folder / "same", base)
    want = losses_of_pytorch(base, inputs, targets)
    differences = [apart(train(flotilla, base, data, folder / f"run{i}", plan), want) for i, plan in enumerate(PLANS)]
    run([flotilla, "export", "hf", folder / f"run{len(PLANS) - 1}", "-o", exported])
    further = losses_of_pytorch(exported, inputs, targets)
    differences.append(apart(train(flotilla, exported, data, folder / "further", PLANS[0]), further))
    print(f"{name:20} {tensors:3} tensors equal; loss {want[0]:.5f} to {want[-1]:.5f}, on to {further[-1]:.5f}; losses apart"
          f" {max(differences):.1e}", flush=True)
    assert further[0] < want[-1] < want[0] and further[-1] < further[0], "nothing was learnt"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    flotilla, names = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2:] or MODELS
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            check(name, MODELS[name], flotilla, pathlib.Path(folder))
    print(f"{len(names)} models")


if __name__ == "__main__":
    main()
