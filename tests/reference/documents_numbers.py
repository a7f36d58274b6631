#!/usr/bin/env python3
"""Writes the numbers that documents_test.cpp compares Flotilla with: loss, logits and every gradient of small models whose sequences hold
several documents, by Hugging Face's own modules in PyTorch with `position_ids` that begin anew with each document and a mask that keeps
documents apart. Computed in float64 as pytorch_numbers.py does, whose models, weights and tokens these are. README.md says what is in the
files. Building and testing Flotilla never runs this script.
"""
import argparse
import pathlib

import numpy
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import pytorch_numbers as base

MODELS = ("gpt2", "llama", "qwen3", "gpt_neox")
# Where documents begin, by sequence.
STARTS = ((0, 4, 7), (0,), (0, 1, 9), (0, 5))


def starts():
    """By token, where its document begins: (SEQUENCES, LENGTH)."""
    return torch.tensor([[max(s for s in of if s <= i) for i in range(base.LENGTH)] for of in STARTS])


def mask_of(first):
    """0 where a token sees another, else what makes its probability 0: (SEQUENCES, 1, LENGTH, LENGTH)."""
    place = torch.arange(base.LENGTH)
    sees = (place[None, None, :] <= place[None, :, None]) & (place[None, None, :] >= first[:, :, None])
    return torch.zeros(sees.shape, dtype=torch.float64).masked_fill(~sees, torch.finfo(torch.float64).min)[:, None]


def expect_as_alone(model, inputs, logits):
    """Each document by itself, without mask and positions, must give the same."""
    for sequence, of in enumerate(STARTS):
        for first, last in zip(of, of[1:] + (base.LENGTH,)):
            alone = model(input_ids=inputs[sequence:sequence + 1, first:last], use_cache=False).logits[0]
            assert (alone - logits[sequence, first:last]).norm() < 1e-12 * alone.norm(), "documents are not apart"


def numbers(name):
    kind, config = base.MODELS[name]
    inputs, targets = base.tokens(config.vocab_size)
    first = starts()
    with sdpa_kernel(SDPBackend.MATH), base.in_float64():
        model, found = base.make_model(kind, config, "sdpa")
        logits = model(input_ids=inputs, attention_mask=mask_of(first), position_ids=torch.arange(base.LENGTH) - first, use_cache=False).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        expect_as_alone(model, inputs, logits)
        kept = {"logits": logits.detach().clone()} | {"gradient " + t.name: t.gradient() for t in found}
    norm = torch.sqrt(sum(value.square().sum() for key, value in kept.items() if key != "logits"))
    return (loss.item(), norm.item()), kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent / "numbers", help="folder to write to")
    folder = parser.parse_args().output
    torch.set_num_threads(1)
    for name in MODELS:
        (loss, norm), kept = numbers(name)
        lines = [f"step 0 loss {loss:.17g} gradient_norm {norm:.17g} learning_rate 0"]
        lines += [key.replace(" ", "/") + "".join(f" {extent}" for extent in value.shape) for key, value in kept.items()]
        (folder / f"{name}.documents.txt").write_text("\n".join(lines) + "\n")
        values = numpy.concatenate([v.numpy().ravel() for v in kept.values()]).astype("<f4")
        (folder / f"{name}.documents.f32").write_bytes(values.tobytes())
        print(name, f"loss {loss:.6f} norm {norm:.4f}")


if __name__ == "__main__":
    main()
