#!/usr/bin/env bash
# The least time of every kernel of a training step: bytes that must be moved, or operations that must be done, at the rates that devices
# reach. Prints the tables of docs/measurements/gpu-floors.md, which a test holds to them.
#
#   floors.sh          prints the tables
#   floors.sh PAGE     fails if a line of them is not on the page
set -euo pipefail

if [ $# -gt 0 ]; then
  tables=$("${BASH_SOURCE[0]}" | grep '^|')
  [ "$(wc -l <<<"$tables")" -gt 80 ] || { echo "floors: too few lines"; exit 1; }
  ! grep -vxFf "$1" <<<"$tables" || { echo "floors: these lines are not in $1"; exit 1; }
  exit 0
fi

awk '
function kernel(name, bytes, flops, part,    d, by_bytes, by_flops, floor, line) {
  # part: "attention", which could do with fewer operations, or "rest"
  line = sprintf("| %s | %.1f | %.1f |", name, bytes / 1e6, flops / 1e9)
  for (d = 1; d <= 2; ++d) {
    by_bytes = bytes / copy[d]
    by_flops = flops / tensor[d]
    floor = by_bytes > by_flops ? by_bytes : by_flops
    total[d] += floor
    if (part == "rest") mandatory[d] += floor
    line = line sprintf(" %.1f %s |", floor * 1e6, by_bytes > by_flops ? "bytes" : "FLOPs")
  }
  print line
}
# A product of n tokens and its two gradients. Weight gradients are fp32, added to what is there.
function product(name, n, out, in_,    operands) {
  operands = 2 * (n * in_ + out * in_ + n * out)
  kernel(name, operands, 2 * n * out * in_, "rest")
  kernel(name ", input gradient", operands, 2 * n * out * in_, "rest")
  kernel(name ", weight gradient", 2 * (n * in_ + n * out) + 8 * out * in_, 2 * n * out * in_, "rest")
}
function head_line(title) {
  print ""
  print title
  print ""
  print "| kernel | MB | GFLOP | A100, us | H100, us |"
  print "|---|---|---|---|---|"
  split("", total); split("", mandatory)
}
# One block. Attention: half of the scores are masked.
function block(n, T, d, heads, size, groups, ff, gated,    qkv, width, pair, bytes) {
  qkv = (heads + 2 * groups) * size
  width = heads * size
  kernel("norm and residual, twice", 2 * 8 * n * d, 0, "rest")
  product("query, key, value", n, qkv, d)
  pair = n * T * width  # FLOPs of one product of scores, half of it masked
  bytes = 2 * n * (qkv + width)
  kernel("attention", bytes, 2 * pair, "attention")
  kernel("attention, backward: queries", bytes + 4 * n * width, 3 * pair, "attention")
  kernel("attention, backward: keys and values", bytes + 4 * n * width, 4 * pair, "attention")
  attention_once_bytes = 3 * bytes + 8 * n * width
  attention_once_flops = 7 * pair
  product("projection", n, d, width)
  product("up", n, (gated ? 2 : 1) * ff, d)
  kernel("activation", (gated ? 6 : 4) * n * ff, 0, "rest")
  kernel("activation, backward", (gated ? 10 : 6) * n * ff, 0, "rest")
  product("down", n, d, ff)
  kernel("norm and residual, backward, twice", 2 * 8 * n * d, 0, "rest")
  if (!gated) kernel("bias gradients", 2 * n * (qkv + 2 * d + ff), 0, "rest")
  kernel("AdamW", 30 * (qkv * d + d * width + (gated ? 3 : 2) * d * ff), 0, "rest")
}
# What one repeated block costs today, and with an attention that computes scores once on the way back.
function block_sum(    d, by_bytes, by_flops) {
  for (d = 1; d <= 2; ++d) {
    by_bytes = attention_once_bytes / copy[d]
    by_flops = attention_once_flops / tensor[d]
    today[d] = total[d]
    possible[d] = mandatory[d] + (by_bytes > by_flops ? by_bytes : by_flops)
  }
  printf "| **a block** | | | **%.0f** | **%.0f** |\n", today[1] * 1e6, today[2] * 1e6
  printf "| **a block that computes scores once on the way back** | | | **%.0f** | **%.0f** |\n", possible[1] * 1e6, possible[2] * 1e6
  for (d = 1; d <= 2; ++d) { step_today[d] = blocks * today[d]; step_possible[d] = blocks * possible[d] }
}
function rest(n, d, vocabulary, positions,    i) {
  head_line("Embedding and head:")
  kernel("embedding and its gradient", 2 * n * d * 6, 0, "rest")
  kernel("last norm and its backward", 2 * 8 * n * d, 0, "rest")
  product("logits", n, vocabulary, d)
  kernel("cross-entropy, in place", 6 * n * vocabulary, 0, "rest")
  kernel("AdamW", 30 * d * (vocabulary + positions), 0, "rest")
  for (i = 1; i <= 2; ++i) { step_today[i] += total[i]; step_possible[i] += total[i] }
}
function step(name, n, parameters,    d) {
  for (d = 1; d <= 2; ++d)
    # Of the peak: 6 operations a parameter and token, as is usual.
    summary[++lines] = sprintf("| %s | %s | %.1f | %.1f | %.0f %% | %.1f | %.1f | %.0f %% |", name, device[d], step_today[d] * 1e3,
      n / step_today[d] / 1e3, 100 * 6 * parameters * n / step_today[d] / peak[d], step_possible[d] * 1e3, n / step_possible[d] / 1e3,
      100 * 6 * parameters * n / step_possible[d] / peak[d])
}
BEGIN {
  device[1] = "A100"; copy[1] = 1.79e12; tensor[1] = 2.62e14; peak[1] = 3.12e14
  device[2] = "H100"; copy[2] = 3.00e12; tensor[2] = 7.98e14; peak[2] = 9.894e14

  blocks = 12
  head_line("### GPT-2 124M: one of 12 blocks, 16 sequences of 1024 tokens")
  block(16384, 1024, 768, 12, 64, 12, 3072, 0); block_sum()
  rest(16384, 768, 50304, 1024)
  step("GPT-2 124M", 16384, 124e6)

  blocks = 48
  head_line("### GPT-2 1.5B: one of 48 blocks, 8 sequences of 1024 tokens")
  block(8192, 1024, 1600, 25, 64, 25, 6400, 0); block_sum()
  rest(8192, 1600, 50304, 1024)
  step("GPT-2 1.5B", 8192, 1.558e9)

  blocks = 32
  head_line("### Llama 3 8B: one of 32 blocks, 1 sequence of 8192 tokens")
  block(8192, 8192, 4096, 32, 128, 8, 14336, 1); block_sum()
  rest(8192, 4096, 128256, 0)
  step("Llama 3 8B", 8192, 8.03e9)

  print ""
  print "### Steps"
  print ""
  print "| model | device | ms | thousand tokens/s | of the peak | ms, scores once on the way back | thousand tokens/s | of the peak |"
  print "|---|---|---|---|---|---|---|---|"
  for (i = 1; i <= lines; ++i) print summary[i]
}'
