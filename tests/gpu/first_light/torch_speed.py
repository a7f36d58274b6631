"""The operations of first_light's speed.cpp by PyTorch, at the same sizes: one JSON object a line. Ends with 77 without PyTorch or a GPU."""
import json
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)

ROWS, LENGTH, WIDTH, HEADS, UP, VOCABULARY, PARAMETERS = 16 * 1024, 1024, 768, 12, 3072, 50304, 124439808
half = dict(device="cuda", dtype=torch.bfloat16)


def seconds(work):
    best = float("inf")
    for _ in range(13):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3)
    return best


def say(name, work):
    print(json.dumps({"kernel": name, "torch_seconds": seconds(work)}), flush=True)


def numbers(*shape):
    return torch.rand(*shape, **half) * 2 - 1


x, residual, weight = numbers(ROWS, WIDTH), numbers(ROWS, WIDTH), numbers(WIDTH)
norm = torch.compile(lambda a, b: (a + b, F.layer_norm(a + b, (WIDTH,), weight, weight)))
say("rows_forward_bf16", lambda: norm(x, residual))
wide = numbers(ROWS, UP)
gelu = torch.compile(lambda a: F.gelu(a, approximate="tanh"))
say("activation_forward_bf16", lambda: gelu(wide))
say("add_bf16", lambda: torch.add(wide, wide))
parameter = torch.nn.Parameter(torch.rand(PARAMETERS, device="cuda"))
parameter.grad = torch.rand(PARAMETERS, device="cuda")
adamw = torch.optim.AdamW([parameter], fused=True)
say("adamw_bf16", adamw.step)
q, k, v = (numbers(ROWS // LENGTH, HEADS, LENGTH, WIDTH // HEADS) for _ in range(3))
say("attention_forward_64_bf16", lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
for name, out, inner in (("qkv", 3 * WIDTH, WIDTH), ("projection", WIDTH, WIDTH), ("up", UP, WIDTH), ("down", WIDTH, UP)):
    a, w = numbers(ROWS, inner), numbers(out, inner)
    say(f"product_{name}_bf16", lambda: F.linear(a, w))
