#!/usr/bin/env python3
"""Seconds of a GPT-2 training step in PyTorch, to set beside `flotilla train` with the same model, batch, device, threads and precision.

A step is forward, backward, clipping by global norm and AdamW, written with plain torch.nn and scaled_dot_product_attention, by torch.compile
where --compile asks for it. Prints one JSON line per precision: the median, the fastest and all samples, and CPU seconds per wall second
(below the thread count the machine was shared; compare only pairs).

precisions: fp32; bf16_autocast (fp32 weights, autocast to bf16); bf16_weights (weights, gradients and activations in bf16, fp32 AdamW copy).
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {  # blocks, hidden, heads, vocabulary, positions
    "gpt2": (12, 768, 12, 50257, 1024),
    "gpt2-medium": (24, 1024, 16, 50257, 1024),
    "gpt2-tiny": (2, 64, 4, 256, 256),
    "gpt2-mini": (4, 128, 8, 256, 256),
}


class Block(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, hidden = x.shape
        split = (batch, length, self.heads, hidden // self.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(hidden, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(batch, length, hidden)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT2(nn.Module):
    def __init__(self, blocks, hidden, heads, vocabulary, positions, dropout):
        super().__init__()
        self.word, self.position = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(hidden, heads, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens):
        x = self.drop(self.word(tokens[:, :-1]) + self.position(torch.arange(tokens.shape[1] - 1, device=tokens.device)))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.word.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


class Step:
    """One optimizer step; `masters` are the fp32 copies that AdamW updates where the model's weights are bf16."""

    def __init__(self, arguments, precision):
        torch.manual_seed(1)
        blocks, hidden, heads, vocabulary, positions = SHAPES[arguments.model]
        if arguments.blocks:
            blocks = arguments.blocks
        self.device = arguments.device
        self.model = GPT2(blocks, hidden, heads, vocabulary, max(positions, arguments.length), arguments.dropout).train().to(self.device)
        self.run = torch.compile(self.model) if arguments.compile else self.model
        self.autocast = precision == "bf16_autocast"
        self.masters = None
        parameters = list(self.model.parameters())
        if precision == "bf16_weights":
            self.masters = [p.detach().clone() for p in parameters]
            self.model.to(torch.bfloat16)
            parameters = self.masters
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=arguments.fused)
        self.tokens = torch.randint(0, vocabulary, (arguments.microbatches, arguments.sequences, arguments.length + 1)).to(self.device)

    def __call__(self):
        self.model.zero_grad(set_to_none=False)
        for tokens in self.tokens:
            with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.autocast):
                loss = self.run(tokens) / len(self.tokens)
            loss.backward()
        if self.masters:
            for master, p in zip(self.masters, self.model.parameters()):
                master.grad = p.grad.float()
        torch.nn.utils.clip_grad_norm_(self.masters or self.model.parameters(), 1.0)
        self.optimizer.step()
        if self.masters:
            with torch.no_grad():
                for master, p in zip(self.masters, self.model.parameters()):
                    p.copy_(master)
        if self.device == "cuda":
            torch.cuda.synchronize()


def measure(arguments, precision):
    step = Step(arguments, precision)
    for _ in range(arguments.warm_up):
        step()
    samples, cpu, wall = [], time.process_time(), time.perf_counter()
    for _ in range(arguments.steps):
        start = time.perf_counter()
        step()
        samples.append(time.perf_counter() - start)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "precision": precision,
        "median_step_seconds": statistics.median(samples),
        "fastest_step_seconds": min(samples),
        "cpu_seconds_per_step": cpu / arguments.steps,
        "cpu_seconds_per_wall_second": cpu / wall,
        "step_seconds": samples,
        "model": arguments.model,
        "device": torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu",
        "compile": arguments.compile,
        "blocks": len(step.model.blocks),
        "length": arguments.length,
        "sequences": arguments.sequences,
        "microbatches": arguments.microbatches,
        "dropout": arguments.dropout,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="gpt2")
    parser.add_argument("--blocks", type=int, default=0, help="other than the model's, to shorten a measurement")
    parser.add_argument("--length", type=int, default=1024, help="sequence length in tokens")
    parser.add_argument("--sequences", type=int, default=1, help="in a microbatch")
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1, help="steps that are not counted")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--fused", action="store_true", help="PyTorch's fused AdamW")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16_autocast", "bf16_weights"],
                        choices=["fp32", "bf16_autocast", "bf16_weights"])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for precision in arguments.precision:
        print(json.dumps(measure(arguments, precision)), flush=True)


if __name__ == "__main__":
    main()
