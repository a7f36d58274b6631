#include "flotilla/model/operations.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::model::operations_test {
namespace {

constexpr Operation all_operations(int i) { return static_cast<Operation>(i); }

std::vector<Segment> segments(const BlockLayout& l) {
  return {l.norm1_stats,
          l.attention_input,
          l.raw_heads,
          l.qkv,
          l.log_sum_exp,
          l.attention_output,
          l.raw_attention,
          l.raw_attention_stats,
          l.middle,
          l.norm2_stats,
          l.ff_input,
          l.up,
          l.activated,
          l.raw_feed_forward,
          l.raw_feed_forward_stats,
          l.end};
}

TEST(Operations, NamesRoundTrip) {
  for (int i = 0; i < all_operation_count; ++i) EXPECT_EQ(parse_operation(to_string(all_operations(i))), all_operations(i));
  EXPECT_THROW(parse_operation("attention"), Error);
}

TEST(BlockLayout, SegmentsAreAlignedAndDisjoint) {
  for (const std::string& name : built_in_names())
    for (Precision precision : {Precision::fp32, Precision::bf16})
      for (int parallel : {1, 3}) {
        const BlockLayout layout = block_layout(built_in(name), {2, 13, parallel, parallel - 1, precision});
        Bytes end{};
        for (const Segment& s : segments(layout)) {
          EXPECT_EQ(s.offset.count % 64, 0);
          EXPECT_GE(s.offset, end);
          end = s.offset + s.size;
        }
        EXPECT_GE(layout.total, end);
        EXPECT_LT(layout.total, end + Bytes{64});
      }
}

/// GPT-2 keeps 15 rows of width d of a token, of which two norms' outputs and the activation are 6; ReLU's activation stays, and so does
/// what a norm after the sum reads.
TEST(BlockLayout, DroppedPartsAreWhatNeedsNoProduct) {
  const LayerShape shape{2, 16};
  const auto parts = [&](const char* name) {
    const BlockLayout kept = block_layout(built_in(name), shape), dropped = block_layout(built_in(name), shape, true);
    EXPECT_EQ(kept.again, Bytes{0});
    EXPECT_NEAR(static_cast<double>((dropped.total + dropped.again - kept.total).count), 0, 64 * 11) << name;
    EXPECT_EQ(dropped.qkv.size, kept.qkv.size);
    EXPECT_FALSE(dropped.qkv.again || dropped.middle.again || dropped.attention_output.again || dropped.up.again || dropped.end.again);
    return static_cast<double>(dropped.again.count) / static_cast<double>(kept.total.count);
  };
  EXPECT_NEAR(parts("gpt2"), 6.0 / 15, 0.01);
  EXPECT_NEAR(parts("opt-125m"), 2.0 / 11, 0.01);
  EXPECT_NEAR(parts("opt-350m"), 1.0 / 11, 0.01);
  EXPECT_NEAR(parts("llama-2-7b"), (2 + 2.69) / (3 * 2.69 + 7), 0.01);
  EXPECT_TRUE(block_layout(built_in("gpt2"), shape, true).activated.again);
  EXPECT_FALSE(block_layout(built_in("opt-125m"), shape, true).activated.again);
}

/// Korthikanti et al. 2022, table 2: with sequence parallelism all of a block is divided by the degree.
TEST(BlockLayout, SharedTokensDivideAllThatIsKept) {
  for (const std::string& name : built_in_names())
    for (int degree : {2, 3}) {
      const Config c = built_in(name);
      if (degree > largest_tensor_parallel(c)) continue;
      std::int64_t sum = 0;
      for (int i = 0; i < degree; ++i) sum += block_layout(c, {2, 13, degree, i, Precision::fp32, true}).total.count;
      const auto whole = static_cast<double>(block_layout(c, {2, 13}).total.count);
      EXPECT_NEAR(static_cast<double>(sum) / whole, 1, 0.08) << name << ' ' << degree;  // pieces are rounded up
    }
}

TEST(BlockLayout, AbsentPartsAreEmpty) {
  const LayerShape shape{2, 16};
  EXPECT_EQ(block_layout(built_in("opt-post-tiny"), shape).attention_input.size, Bytes{0});
  EXPECT_EQ(block_layout(built_in("opt-post-tiny"), shape).up.size, Bytes{0});
  EXPECT_EQ(block_layout(built_in("gpt2-tiny"), shape).end.size, Bytes{0});
  EXPECT_EQ(block_layout(built_in("gpt2-tiny"), shape).up.size, Bytes{2 * 16 * 256 * 4});
  EXPECT_EQ(head_layout(built_in("opt-post-tiny"), shape).normed.size, Bytes{0});
  EXPECT_EQ(head_layout(built_in("opt-post-tiny"), shape).projected.size, Bytes{2 * 16 * 32 * 4});
  EXPECT_EQ(embedding_layout(built_in("gpt2-tiny"), shape).total, Bytes{0});
  EXPECT_EQ(embedding_layout(built_in("opt-post-tiny"), shape).total, Bytes{2 * 16 * 32 * 4});
}

TEST(LocalExtents, SumToTheWhole) {
  const Config c = built_in("gpt2");
  for (int parallel : {1, 2, 3, 5, 12}) {
    int heads = 0, columns = 0, vocabulary = 0;
    for (int i = 0; i < parallel; ++i) {
      const LayerShape s{1, 8, parallel, i};
      heads += local_heads(c, s);
      columns += local_columns(c, s);
      vocabulary += local_vocabulary(c, s);
      EXPECT_EQ(logits_pitch(c, s) % 16, 0);
      EXPECT_GE(logits_pitch(c, s), local_vocabulary(c, s));
    }
    EXPECT_EQ(heads, c.heads);
    EXPECT_EQ(columns, c.feed_forward);
    EXPECT_EQ(vocabulary, c.vocabulary);
  }
}

double whole_flops(const Config& c, int parallel, Operation operation) {
  double sum = 0;
  for (int i = 0; i < parallel; ++i) sum += flops(c, {2, 32, parallel, i}, operation);
  return sum;
}

TEST(Flops, CutLayersShareTheWork) {
  const Config c = built_in("gpt2");
  for (Operation o : {Operation::attention_forward, Operation::mlp_forward, Operation::head_forward, Operation::attention_backward,
                      Operation::mlp_backward, Operation::head_backward})
    EXPECT_DOUBLE_EQ(whole_flops(c, 5, o), whole_flops(c, 1, o)) << to_string(o);
}

TEST(Flops, HalvesSumToTheWhole) {
  int halves = 0;
  for (const char* name : {"gpt2", "opt-post-tiny", "llama-3-8b", "gemma-3-1b"})
    for (int i = static_cast<int>(Operation::mlp_backward_input); i + 1 < all_operation_count; i += 2) {
      const Config c = built_in(name);
      const LayerShape s{2, 32, 3, 1};
      const Operation input = all_operations(i), weights = all_operations(i + 1);
      ASSERT_TRUE(whole_of(input) && whole_of(input) == whole_of(weights));
      EXPECT_DOUBLE_EQ(flops(c, s, input) + flops(c, s, weights), flops(c, s, *whole_of(input)));
      EXPECT_GE(traffic(c, s, input) + traffic(c, s, weights), traffic(c, s, *whole_of(input)));
      EXPECT_EQ(summed_weights(c, s, input), 0);
      EXPECT_EQ(summed_weights(c, s, weights), summed_weights(c, s, *whole_of(input)));
      EXPECT_GE(traffic(c, s, weights).count, 8 * summed_weights(c, s, weights));
      EXPECT_LE(workspace(c, s, input, 2), workspace(c, s, *whole_of(input), 2));
      ++halves;
    }
  EXPECT_EQ(halves, 12);
  for (int i = 0; i < operation_count; ++i) EXPECT_FALSE(whole_of(all_operations(i)));
}

TEST(Flops, AgreeWithTheConventionOfModelFlops) {
  for (const char* name : {"gpt2", "opt-350m", "llama-3-8b"}) {
    const Config c = built_in(name);
    const int length = 64;
    const LayerShape s{1, length};
    double once = 0, per_block = 0;
    for (Operation o : {Operation::embedding_end_forward, Operation::head_forward, Operation::head_backward, Operation::head_end_backward,
                        Operation::embedding_backward})
      once += flops(c, s, o);
    for (Operation o : {Operation::attention_forward, Operation::mlp_forward, Operation::attention_backward, Operation::mlp_backward})
      per_block += flops(c, s, o);
    // Scores are counted once: 6 products of length (length + 1) / 2 instead of 7.
    const double attention = -2.0 * c.hidden * length * (length + 1) / 2;
    EXPECT_LE(training_flops_per_token(c, length) * length, once + c.blocks * per_block) << "a share of peak above what is computed";
    EXPECT_NEAR(training_flops_per_token(c, length) * length, once + c.blocks * (per_block + attention), 1e-9 * once * c.blocks);
  }
}

/// Counted one by one: a query sees the keys up to itself, in a window only the last of them.
TEST(Flops, LocalAttentionCountsItsWindow) {
  Config c = built_in("gpt-neo-tiny");
  c.windows = {0, 5, 11};
  c.blocks = 4;  // windows 0, 5, 11, 0
  for (const int length : {3, 8, 40}) {
    double pairs = 0;
    for (int block = 0; block < c.blocks; ++block)
      for (int query = 0; query < length; ++query)
        for (int key = 0; key <= query; ++key) pairs += c.window(block) == 0 || query - key < c.window(block);
    EXPECT_DOUBLE_EQ(attention_pairs(c, {3, length}), 3 * pairs / c.blocks) << length;
  }
  Config full = c;
  full.windows = {};
  const LayerShape s{1, 40};
  const double less = attention_pairs(full, s) - attention_pairs(c, s), product = 2 * less * c.hidden;
  EXPECT_NEAR(flops(full, s, Operation::attention_forward) - flops(c, s, Operation::attention_forward), 2 * product, 1e-6 * product);
  EXPECT_NEAR(flops(full, s, Operation::attention_backward) - flops(c, s, Operation::attention_backward), 5 * product, 1e-6 * product);
  EXPECT_LT(training_flops_per_token(c, 40), training_flops_per_token(full, 40));
}

/// Llama 3 8B's matrices by hand: a token's forward pass is two FLOPs for every element of theirs.
TEST(Flops, SharedKeysAndGatesByHand) {
  const Config c = built_in("llama-3-8b");
  const LayerShape one{1, 1};
  const double pairs = 1, attention = 2 * 2 * pairs * 4096;
  EXPECT_DOUBLE_EQ(flops(c, one, Operation::attention_forward), 2.0 * 4096 * (4096 + 2 * 1024) + 2.0 * 4096 * 4096 + attention);
  EXPECT_DOUBLE_EQ(flops(c, one, Operation::mlp_forward), 3 * 2.0 * 4096 * 14336);
  double cut = 0;
  for (int i = 0; i < 3; ++i) cut += flops(c, {1, 1, 3, i}, Operation::attention_forward);
  EXPECT_DOUBLE_EQ(cut, flops(c, one, Operation::attention_forward));
  EXPECT_EQ(block_layout(c, {1, 1, 3, 2}).qkv.size, Bytes{3 * (4 + 2) * 128 * 4});  // 8 groups in 3: 2, 3, 3
}

TEST(Flops, NoProductIsComputedAgain) {
  const Config c = built_in("llama-3-8b");
  EXPECT_EQ(flops(c, {2, 64}, Operation::block_again), 0);
  EXPECT_GT(traffic(c, {2, 64}, Operation::block_again).count, 2 * 64 * (4ll * 4096 + 3 * 14336) * 4 - 1);
}

TEST(Traffic, CoversWeightsAtLeast) {
  const Config c = built_in("gpt2");
  const LayerShape one{1, 1};
  EXPECT_GE(traffic(c, one, Operation::mlp_forward).count, 2ll * 768 * 3072 * 4);
  EXPECT_GE(traffic(c, one, Operation::attention_forward).count, 4ll * 768 * 768 * 4);
  EXPECT_GE(traffic(c, one, Operation::head_forward).count, 50257ll * 768 * 4);
  for (int i = 0; i < all_operation_count; ++i) EXPECT_GT(traffic(c, one, all_operations(i)).count, 0) << to_string(all_operations(i));
}

TEST(Workspace, GrowsWithThreadsAndIsAligned) {
  for (const std::string& name : built_in_names())
    for (int i = 0; i < all_operation_count; ++i) {
      const Config c = built_in(name);
      const LayerShape s{2, 130, 3, 1, Precision::bf16};
      const Bytes one = workspace(c, s, all_operations(i), 1), four = workspace(c, s, all_operations(i), 4);
      EXPECT_EQ(one.count % 64, 0);
      EXPECT_GE(four, one);
      EXPECT_LE(four, 4 * one);
    }
}

}  // namespace
}  // namespace flotilla::model::operations_test
