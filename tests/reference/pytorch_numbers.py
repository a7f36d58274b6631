#!/usr/bin/env python3
"""Writes the numbers that pytorch_test.cpp compares Flotilla with: loss, logits, every gradient and a few AdamW updates of small GPT-2,
OPT, GPT-Neo, Llama, Qwen3, GPT-NeoX, BLOOM and Gemma models, by Hugging Face's own modules in PyTorch.

Everything is computed in float64 and rounded to float32 on writing, so that the numbers' own error is far below the test's bounds.
Weights and tokens are formulas (see weights() and tokens()) that the test repeats; the files hold results alone. README.md says what is
in them. Building and testing Flotilla never runs this script.
"""
import argparse
import contextlib
import json
import math
import pathlib
import shutil
import tempfile

import numpy
import torch
import transformers
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import modeling_rope_utils
from transformers.models.bloom import modeling_bloom
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.gpt_neo import modeling_gpt_neo
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

SEQUENCES, LENGTH, UPDATES = 4, 10, 4
PEAK, MINIMUM, WARMUP, TOTAL = 2e-3, 2e-4, 2, 5  # learning rate
CLIP, BETAS, EPSILON, DECAY = 1.0, (0.9, 0.95), 1e-8, 0.1

# Extents that two or four ranks do not divide evenly; fewer positions used than there are.
GPT2 = dict(n_layer=2, n_embd=24, n_head=3, n_positions=12, vocab_size=61, activation_function="gelu_new",
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
# pad_token_id=None: Hugging Face gives a padding token no gradient, which is a matter of the data and not of the model.
OPT = dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=3, ffn_dim=58, max_position_embeddings=12, vocab_size=61,
           activation_function="relu", dropout=0.0, attention_dropout=0.0, layerdrop=0.0, pad_token_id=None)
# A window that leaves keys out for six queries of ten.
GPT_NEO = dict(num_layers=2, attention_types=[[["global", "local"], 1]], window_size=4, hidden_size=24, num_heads=3, intermediate_size=58,
               max_position_embeddings=12, vocab_size=61, activation_function="gelu_new", bos_token_id=0, eos_token_id=0)
LLAMA = dict(num_hidden_layers=2, hidden_size=24, intermediate_size=34, max_position_embeddings=12, vocab_size=61, rms_norm_eps=1e-5,
             pad_token_id=None)
# Four angles, of which one is kept, one mixed and two stretched.
STRETCHED = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                 original_max_position_embeddings=100)
# Heads wider than hidden / heads.
QWEN3 = dict(LLAMA, num_attention_heads=6, num_key_value_heads=3, head_dim=6, tie_word_embeddings=False)
# Half of each head is turned: two angles of four.
GPT_NEOX = dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=3, intermediate_size=58, max_position_embeddings=12, vocab_size=61,
                hidden_act="gelu", rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
# Three heads: the third's slope is none of a power of two.
BLOOM = dict(n_layer=2, hidden_size=24, n_head=3, vocab_size=61, bos_token_id=0, eos_token_id=0, pad_token_id=None)
# A window in one of two blocks. Caps and the scores' width bend scores and logits of this size.
GEMMA2 = dict(LLAMA, num_attention_heads=6, num_key_value_heads=3, head_dim=6, sliding_window=4, query_pre_attn_scalar=5,
              attn_logit_softcapping=3.0, final_logit_softcapping=2.0)
GEMMA3 = dict(LLAMA, num_attention_heads=6, num_key_value_heads=3, head_dim=6, sliding_window=4, query_pre_attn_scalar=5,
              layer_types=["sliding_attention", "full_attention"],
              rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=50.0),
                                   full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1000.0)))
MODELS = {
    "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config(**GPT2)),
    "opt": (transformers.OPTForCausalLM, transformers.OPTConfig(**OPT, do_layer_norm_before=True, word_embed_proj_dim=24)),
    "opt_post": (transformers.OPTForCausalLM, transformers.OPTConfig(**OPT, do_layer_norm_before=False, word_embed_proj_dim=14)),
    "gpt_neo": (transformers.GPTNeoForCausalLM, transformers.GPTNeoConfig(**GPT_NEO)),
    # Two query heads to a head of keys; a head of its own.
    "llama": (transformers.LlamaForCausalLM,
              transformers.LlamaConfig(**LLAMA, num_attention_heads=6, num_key_value_heads=3, tie_word_embeddings=False)),
    # Keys for every query, biases, stretched angles; tied.
    "llama_tied": (transformers.LlamaForCausalLM,
                   transformers.LlamaConfig(**LLAMA, num_attention_heads=3, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                            rope_parameters=STRETCHED)),
    "qwen3": (transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**QWEN3)),
    "gpt_neox": (transformers.GPTNeoXForCausalLM, transformers.GPTNeoXConfig(**GPT_NEOX)),
    "bloom": (transformers.BloomForCausalLM, transformers.BloomConfig(**BLOOM)),
    "gemma2": (transformers.Gemma2ForCausalLM, transformers.Gemma2Config(**GEMMA2)),
    "gemma3": (transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(**GEMMA3)),
}


def bits(name, count):
    """16 bits for each element of a tensor: SplitMix64's finalizer over FNV-1a of the name plus the index."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) % 2**64
    with numpy.errstate(over="ignore"):
        x = numpy.uint64(seed) + numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return (x ^ (x >> numpy.uint64(31))) >> numpy.uint64(48)


def weights(name, shape, norms_about_one=True):
    """Odd multiples of 2^-18 in (-1/4, 1/4), plus 1 for the weights of norms, unless the model adds it: all exact in float32."""
    values = (2 * bits(name, math.prod(shape)).astype(numpy.float64) + 1 - 2**16) / 2**18
    if norms_about_one and "norm" in name and name.endswith(".weight"):
        values += 1
    return torch.from_numpy(values.reshape(shape))


def tokens(vocabulary):
    """Sequence i is [i * LENGTH, (i+1) * LENGTH]: its last token is the next one's first."""
    stream = torch.from_numpy((bits("tokens", SEQUENCES * LENGTH + 1) % numpy.uint64(vocabulary)).astype(numpy.int64))
    return stream[:-1].reshape(SEQUENCES, LENGTH), stream[1:].reshape(SEQUENCES, LENGTH)


class Tensor:
    """One of Flotilla's tensors: PyTorch parameters one after the other along the rows, each transposed where it is a Conv1D's."""

    def __init__(self, name, parameters, transposed=False):
        self.name, self.parameters, self.transposed = name, parameters, transposed

    def join(self, values):
        return torch.cat([v.T if self.transposed else v for v in values]).detach().clone()

    def values(self):
        return self.join(self.parameters)

    def gradient(self):
        return self.join([p.grad for p in self.parameters])

    def fill(self, norms_about_one=True):
        rows = weights(self.name, tuple(self.values().shape), norms_about_one).split(
            [p.shape[1 if self.transposed else 0] for p in self.parameters])
        with torch.no_grad():
            for parameter, value in zip(self.parameters, rows):
                parameter.copy_(value.T if self.transposed else value)


class Grouped(Tensor):
    """Queries, keys and values of grouped-query attention: group after group, its queries, its key, its value."""

    def __init__(self, name, parameters, groups):
        super().__init__(name, parameters)
        self.groups = groups

    def join(self, values):
        parts = [v.unflatten(0, (self.groups, -1)) for v in values]
        return torch.cat(parts, dim=1).flatten(0, 1).detach().clone()

    def fill(self, norms_about_one=True):
        extents = [p.shape[0] // self.groups for p in self.parameters]
        rows = weights(self.name, tuple(self.values().shape)).unflatten(0, (self.groups, -1)).split(extents, dim=1)
        with torch.no_grad():
            for parameter, value in zip(self.parameters, rows):
                parameter.copy_(value.flatten(0, 1))


def linear(name, module, transposed=False):
    if module.bias is None:
        return [Tensor(name + ".weight", [module.weight])]
    return [Tensor(name + ".weight", [module.weight], transposed and module.weight.dim() == 2), Tensor(name + ".bias", [module.bias])]


def gpt2_tensors(model):
    body = model.transformer
    found = [Tensor("embedding.word", [body.wte.weight]), Tensor("embedding.position", [body.wpe.weight])]
    for i, block in enumerate(body.h):
        found += linear(f"block.{i}.norm1", block.ln_1)
        found += linear(f"block.{i}.attention.qkv", block.attn.c_attn, True) + linear(f"block.{i}.attention.out", block.attn.c_proj, True)
        found += linear(f"block.{i}.norm2", block.ln_2)
        found += linear(f"block.{i}.feed_forward.up", block.mlp.c_fc, True) + linear(f"block.{i}.feed_forward.down", block.mlp.c_proj, True)
    return found + linear("head.norm", body.ln_f)


def opt_tensors(model):
    body = model.model.decoder
    found = [Tensor("embedding.word", [body.embed_tokens.weight]), Tensor("embedding.position", [body.embed_positions.weight])]
    if body.project_in is not None:
        found.append(Tensor("embedding.project_in", [body.project_in.weight]))
    for i, block in enumerate(body.layers):
        attention = block.self_attn
        qkv = [attention.q_proj, attention.k_proj, attention.v_proj]
        found += linear(f"block.{i}.norm1", block.self_attn_layer_norm)
        found.append(Tensor(f"block.{i}.attention.qkv.weight", [m.weight for m in qkv]))
        found.append(Tensor(f"block.{i}.attention.qkv.bias", [m.bias for m in qkv]))
        found += linear(f"block.{i}.attention.out", attention.out_proj)
        found += linear(f"block.{i}.norm2", block.final_layer_norm)
        found += linear(f"block.{i}.feed_forward.up", block.fc1) + linear(f"block.{i}.feed_forward.down", block.fc2)
    if body.final_layer_norm is not None:
        found += linear("head.norm", body.final_layer_norm)
    if body.project_out is not None:
        found.append(Tensor("head.project_out", [body.project_out.weight]))
    return found


def gpt_neo_tensors(model):
    body = model.transformer
    found = [Tensor("embedding.word", [body.wte.weight]), Tensor("embedding.position", [body.wpe.weight])]
    for i, block in enumerate(body.h):
        attention = block.attn.attention
        found += linear(f"block.{i}.norm1", block.ln_1)
        found.append(Tensor(f"block.{i}.attention.qkv.weight", [m.weight for m in (attention.q_proj, attention.k_proj, attention.v_proj)]))
        found += linear(f"block.{i}.attention.out", attention.out_proj)
        found += linear(f"block.{i}.norm2", block.ln_2)
        found += linear(f"block.{i}.feed_forward.up", block.mlp.c_fc) + linear(f"block.{i}.feed_forward.down", block.mlp.c_proj)
    return found + linear("head.norm", body.ln_f)


def joined(name, modules, groups=0):
    """Linear layers as one, rows below rows, or group by group."""
    make = (lambda *of: Grouped(*of, groups)) if groups else Tensor
    found = [make(name + ".weight", [m.weight for m in modules])]
    return found if modules[0].bias is None else found + [make(name + ".bias", [m.bias for m in modules])]


def llama_tensors(model):
    config, body = model.config, model.model
    groups = config.num_key_value_heads if config.num_key_value_heads != config.num_attention_heads else 0
    found = [Tensor("embedding.word", [body.embed_tokens.weight])]
    for i, block in enumerate(body.layers):
        attention, mlp = block.self_attn, block.mlp
        found.append(Tensor(f"block.{i}.norm1.weight", [block.input_layernorm.weight]))
        found += joined(f"block.{i}.attention.qkv", [attention.q_proj, attention.k_proj, attention.v_proj], groups)
        found += linear(f"block.{i}.attention.out", attention.o_proj)
        if hasattr(attention, "q_norm"):
            found.append(Tensor(f"block.{i}.attention.query_norm.weight", [attention.q_norm.weight]))
            found.append(Tensor(f"block.{i}.attention.key_norm.weight", [attention.k_norm.weight]))
        before = block.post_attention_layernorm
        if hasattr(block, "pre_feedforward_layernorm"):
            found.append(Tensor(f"block.{i}.attention.output_norm.weight", [before.weight]))
            before = block.pre_feedforward_layernorm
        found.append(Tensor(f"block.{i}.norm2.weight", [before.weight]))
        found += joined(f"block.{i}.feed_forward.up", [mlp.gate_proj, mlp.up_proj])
        found += linear(f"block.{i}.feed_forward.down", mlp.down_proj)
        if hasattr(block, "post_feedforward_layernorm"):
            found.append(Tensor(f"block.{i}.feed_forward.output_norm.weight", [block.post_feedforward_layernorm.weight]))
    found.append(Tensor("head.norm.weight", [body.norm.weight]))
    return found if config.tie_word_embeddings else found + [Tensor("head.word", [model.lm_head.weight])]


def neox_block(name, block, attention):
    """As GPT-NeoX and BLOOM name a block's modules. Queries, keys and values of a head stand together in both, as ours do."""
    return (linear(f"{name}.norm1", block.input_layernorm) + linear(f"{name}.attention.qkv", attention.query_key_value)
            + linear(f"{name}.attention.out", attention.dense) + linear(f"{name}.norm2", block.post_attention_layernorm)
            + linear(f"{name}.feed_forward.up", block.mlp.dense_h_to_4h) + linear(f"{name}.feed_forward.down", block.mlp.dense_4h_to_h))


def gpt_neox_tensors(model):
    body = model.gpt_neox
    found = [Tensor("embedding.word", [body.embed_in.weight])]
    for i, block in enumerate(body.layers):
        found += neox_block(f"block.{i}", block, block.attention)
    return found + linear("head.norm", body.final_layer_norm) + [Tensor("head.word", [model.get_output_embeddings().weight])]


def bloom_tensors(model):
    body = model.transformer
    found = [Tensor("embedding.word", [body.word_embeddings.weight])] + linear("embedding.norm", body.word_embeddings_layernorm)
    for i, block in enumerate(body.h):
        found += neox_block(f"block.{i}", block, block.self_attention)
    return found + linear("head.norm", body.ln_f)


TENSORS = {"gpt2": gpt2_tensors, "opt": opt_tensors, "gpt_neo": gpt_neo_tensors, "llama": llama_tensors, "qwen3": llama_tensors,
           "gpt_neox": gpt_neox_tensors, "bloom": bloom_tensors, "gemma2": llama_tensors, "gemma3_text": llama_tensors}


class Float64:
    """The torch module, where float32 means float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def gemma_norm(self, x):
    return self._norm(x) * (1.0 + self.weight)


@contextlib.contextmanager
def in_float64():
    """Scores of GPT-Neo, BLOOM and Gemma 2, and norms and angles of those with rotation, go through float32 whatever the model's type;
    here they do not."""
    norms = (modeling_gemma2.Gemma2RMSNorm, modeling_gemma3.Gemma3RMSNorm)
    forwards = [norm.forward for norm in norms]
    modules = (modeling_bloom, modeling_gemma2, modeling_gemma3, modeling_gpt_neo, modeling_gpt_neox, modeling_llama, modeling_qwen3, modeling_rope_utils)
    for module in modules:
        module.torch = Float64()
    for norm in norms:
        norm.forward = gemma_norm
    try:
        yield
    finally:
        for norm, forward in zip(norms, forwards):
            norm.forward = forward
        for module in modules:
            module.torch = torch


def learning_rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return MINIMUM + 0.5 * (PEAK - MINIMUM) * (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP - 1)))


def make_model(kind, config, attention):
    model = kind._from_config(config, attn_implementation=attention).double().train()
    found = TENSORS[config.model_type](model)
    ours, theirs = [id(p) for t in found for p in t.parameters], [id(p) for p in model.parameters()]
    assert sorted(ours) == sorted(theirs), "a parameter is missing, doubled or not tied"
    for tensor in found:
        tensor.fill(not config.model_type.startswith("gemma"))
    return model, found


def pass_forward(model, inputs, targets):
    logits = model(input_ids=inputs, use_cache=False).logits
    # Not the model's own loss: that one rounds logits to float32 and drops the last target.
    return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_optimizer(found):
    groups = [{"params": [p for t in found for p in t.parameters if p.dim() == 2], "weight_decay": DECAY},
              {"params": [p for t in found for p in t.parameters if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=BETAS, eps=EPSILON)


def train(model, found, inputs, targets):
    """Scalars of every step, and the tensors worth keeping: logits and gradients of the first, parameters after the last."""
    scalars, kept = [], {}
    optimizer = make_optimizer(found)
    for step in range(UPDATES):
        optimizer.zero_grad()
        logits, loss = pass_forward(model, inputs, targets)
        loss.backward()
        if step == 0:
            kept["logits"] = logits.detach().clone()
            kept |= {"gradient " + t.name: t.gradient() for t in found}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        rate = learning_rate(step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        scalars.append((loss.item(), norm.item(), rate))
    return scalars, kept | {"updated " + t.name: t.values() for t in found}


def expect_like_eager(kind, config, inputs, targets, logits):
    """Hugging Face's eager attention, as it stands, must agree; OPT's rounds probabilities to float32, hence not the one that is written
    down."""
    eager, _ = pass_forward(make_model(kind, config, "eager")[0], inputs, targets)
    assert (eager - logits).norm() < 1e-6 * logits.norm(), "Hugging Face's eager attention disagrees"


def write_weights(folder, name, model):
    """What the model starts from, as Hugging Face writes it."""
    with tempfile.TemporaryDirectory() as written:
        model.float().save_pretrained(written)
        shutil.copyfile(pathlib.Path(written) / "model.safetensors", folder / f"{name}.safetensors")


def write(folder, name, config, scalars, kept):
    keys = config.to_dict()
    (folder / f"{name}.config.json").write_text(json.dumps(keys, indent=2, sort_keys=True) + "\n")
    lines = [f"step {i} loss {loss:.17g} gradient_norm {norm:.17g} learning_rate {rate:.17g}"
             for i, (loss, norm, rate) in enumerate(scalars)]
    lines += [key.replace(" ", "/") + "".join(f" {extent}" for extent in value.shape) for key, value in kept.items()]
    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    values = numpy.concatenate([v.numpy().ravel() for v in kept.values()]).astype("<f4")
    (folder / f"{name}.f32").write_bytes(values.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent / "numbers", help="folder to write to")
    parser.add_argument("models", nargs="*", help="write only these")
    arguments = parser.parse_args()
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, (kind, config) in MODELS.items():
        if arguments.models and name not in arguments.models:
            continue
        inputs, targets = tokens(config.vocab_size)
        write_weights(folder, name, make_model(kind, config, "eager")[0])
        with sdpa_kernel(SDPBackend.MATH), in_float64():
            model, found = make_model(kind, config, "sdpa" if kind._supports_sdpa else "eager")
            scalars, kept = train(model, found, inputs, targets)
        expect_like_eager(kind, config, inputs, targets, kept["logits"])
        write(folder, name, config, scalars, kept)
        print(name, *[f"loss {loss:.6f} norm {norm:.4f}" for loss, norm, _ in scalars])


if __name__ == "__main__":
    main()
