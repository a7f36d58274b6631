#!/usr/bin/env python3
"""Writes the numbers that peft_test.cpp compares Flotilla with: loss and gradients of LoRA adapters that PEFT puts on small GPT-2, OPT and
Llama models, and the weights that PEFT merges them into. Computed in float64 as pytorch_numbers.py does, whose models, weights and tokens
these are. README.md says what is in the files. Building and testing Flotilla never runs this script.

    peft_numbers.py [--output FOLDER]
    peft_numbers.py --check FOLDER   loads an adapter that flotilla export hf --adapter wrote there, beside the merged model that flotilla
                                     export hf wrote to FOLDER/merged, on the model of FOLDER/base, and compares
"""
import argparse
import pathlib

import numpy
import peft
import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel

import pytorch_numbers as base

RANK, ALPHA = 3, 4.5
# By model_type: our target, PEFT's modules in the order of our rows.
TARGETS = {
    "gpt2": {"attention.qkv": ["attn.c_attn"], "attention.out": ["attn.c_proj"], "feed_forward.up": ["mlp.c_fc"],
             "feed_forward.down": ["mlp.c_proj"]},
    "opt": {"attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], "attention.out": ["self_attn.out_proj"],
            "feed_forward.up": ["fc1"], "feed_forward.down": ["fc2"]},
    "llama": {"attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], "attention.out": ["self_attn.o_proj"],
              "feed_forward.up": ["mlp.gate_proj", "mlp.up_proj"], "feed_forward.down": ["mlp.down_proj"]},
}
BLOCKS = {"gpt2": "transformer.h", "opt": "model.decoder.layers", "llama": "model.layers"}
MODELS = ("gpt2", "opt", "llama")


def adapted(model):
    """The model with PEFT's adapters, and our tensors of them."""
    kind = model.config.model_type
    modules = [name for names in TARGETS[kind].values() for name in names]
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=modules, fan_in_fan_out=kind == "gpt2")
    groups = getattr(model.config, "num_key_value_heads", 0)
    grouped = kind == "llama" and groups != model.config.num_attention_heads
    model = peft.get_peft_model(model, config).double()
    found = []
    for block in range(model.config.num_hidden_layers):
        for ours, names in TARGETS[kind].items():
            at = [model.get_submodule(f"base_model.model.{BLOCKS[kind]}.{block}.{name}") for name in names]
            a, b = [m.lora_A["default"].weight for m in at], [m.lora_B["default"].weight for m in at]
            found.append(base.Tensor(f"block.{block}.{ours}.lora_A", a))
            name = f"block.{block}.{ours}.lora_B"
            found.append(base.Grouped(name, b, groups) if grouped and ours == "attention.qkv" else base.Tensor(name, b))
    for tensor in found:
        tensor.fill()
    return model, found


def numbers(name):
    """Scalars of the first step, and the tensors worth keeping: gradients of the adapters, and the targets' merged weights."""
    kind, config = base.MODELS[name]
    inputs, targets = base.tokens(config.vocab_size)
    with sdpa_kernel(SDPBackend.MATH), base.in_float64():
        model, _ = base.make_model(kind, config, "sdpa" if kind._supports_sdpa else "eager")
        model, found = adapted(model)
        _, loss = base.pass_forward(model, inputs, targets)
        loss.backward()
        kept = {"gradient " + t.name: t.gradient() for t in found}
        norm = torch.sqrt(sum(value.square().sum() for value in kept.values()))
        merged = model.merge_and_unload()
        names = {t.name.rsplit(".", 1)[0] + ".weight" for t in found}
        kept |= {"merged " + t.name: t.values() for t in base.TENSORS[config.model_type](merged) if t.name in names}
        _, again = base.pass_forward(merged, inputs, targets)
        assert abs(again - loss) < 1e-12 * loss, "the merged model has another loss"
    return (loss.item(), norm.item(), 0.0), kept


def write(folder):
    torch.set_num_threads(1)
    for name in MODELS:
        (loss, norm, _), kept = numbers(name)
        lines = [f"step 0 loss {loss:.17g} gradient_norm {norm:.17g} learning_rate 0"]
        lines += [key.replace(" ", "/") + "".join(f" {extent}" for extent in value.shape) for key, value in kept.items()]
        (folder / f"{name}.lora.txt").write_text("\n".join(lines) + "\n")
        values = numpy.concatenate([v.numpy().ravel() for v in kept.values()]).astype("<f4")
        (folder / f"{name}.lora.f32").write_bytes(values.tobytes())
        print(name, f"loss {loss:.6f} norm {norm:.4f}")


def check(folder):
    """PEFT's own loading and merging of our adapter, against our merging."""
    loaded = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(folder / "base"), folder)
    assert sum(float(p.abs().sum()) for n, p in loaded.named_parameters() if ".lora_B." in n) > 0, "the adapter is zero"
    theirs = loaded.merge_and_unload().state_dict()
    ours = transformers.AutoModelForCausalLM.from_pretrained(folder / "merged").state_dict()
    assert theirs.keys() == ours.keys()
    worst = max(float((theirs[k].double() - ours[k].double()).norm() / theirs[k].double().norm().clamp_min(1e-30)) for k in theirs)
    print(f"{len(theirs)} tensors, worst relative difference {worst:.3g}")
    assert worst < 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent / "numbers", help="folder to write to")
    parser.add_argument("--check", type=pathlib.Path, help="folder of an exported adapter")
    options = parser.parse_args()
    check(options.check) if options.check else write(options.output)


if __name__ == "__main__":
    main()
