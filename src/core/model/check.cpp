#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::model {
namespace {

void positive(std::string_view where, const char* field, int value) {
  FLOTILLA_REQUIRE(value > 0, ErrorKind::bad_input, where, ": ", field, " is ", value, "; it must be 1 or more");
}

void probability(std::string_view where, const char* field, double value) {
  FLOTILLA_REQUIRE(value >= 0 && value < 1, ErrorKind::bad_input, where, ": ", field, " is ", value, "; it must be at least 0 and below 1");
}

/// Above this the byte counts of one layer could leave 64 bits on some product of extents; far beyond any model.
constexpr int largest_extent = 1 << 24;

/// The deepest published model (DeepNet) has 1,000.
constexpr int most_blocks = 2048;

void bounded(std::string_view where, const char* field, int value) {
  positive(where, field, value);
  FLOTILLA_REQUIRE(value <= largest_extent, ErrorKind::bad_input, where, ": ", field, " is ", value, "; it must be at most ",
                   largest_extent);
}

/// Neither 0 nor infinite where it is computed with.
void in_fp32(std::string_view where, const char* field, double value) {
  FLOTILLA_REQUIRE(value >= 1e-30 && value <= 1e30, ErrorKind::bad_input, where, ": ", field, " is ", value,
                   "; it must be at least 1e-30 and at most 1e30");
}

void check_groups(const Config& c, std::string_view where) {
  FLOTILLA_REQUIRE(c.key_value_heads >= 0 && c.key_value_heads <= c.heads && c.heads % c.groups() == 0, ErrorKind::bad_input, where,
                   ": key_value_heads is ", c.key_value_heads, "; it must divide heads (", c.heads, ")");
}

void check_heads(const Config& c, std::string_view where) {
  FLOTILLA_REQUIRE(c.head_width > 0 || c.hidden % c.heads == 0, ErrorKind::bad_input, where, ": hidden is ", c.hidden,
                   "; it must be a multiple of heads (", c.heads, ")");
  FLOTILLA_REQUIRE(c.head_width >= 0 && c.attention_width() <= largest_extent, ErrorKind::bad_input, where, ": head_width is ",
                   c.head_width, "; it must be 1 or more, or 0 for hidden / heads, and all heads together at most ", largest_extent,
                   " columns");
}

void check_rotary(const Config& c, std::string_view where) {
  const Rotary& r = c.rotary;
  FLOTILLA_REQUIRE(r.theta == 0 || (std::isfinite(r.theta) && r.theta >= 1), ErrorKind::bad_input, where, ": the rotary theta is ", r.theta,
                   "; it must be 1 or more, or 0 for a table of positions");
  FLOTILLA_REQUIRE(!c.rotates() || c.rotary.width > 0 || c.head_size() % 2 == 0, ErrorKind::bad_input, where, ": a head has ",
                   c.head_size(), " columns; rotary positions turn pairs of them, so it must be even");
  FLOTILLA_REQUIRE(std::isfinite(r.factor) && r.factor >= 1, ErrorKind::bad_input, where, ": the rotary factor is ", r.factor,
                   "; it must be 1 or more");
  FLOTILLA_REQUIRE(
      std::isfinite(r.low_frequency) && std::isfinite(r.high_frequency) && r.low_frequency > 0 && r.low_frequency < r.high_frequency,
      ErrorKind::bad_input, where, ": the rotary low_frequency is ", r.low_frequency, " and high_frequency ", r.high_frequency,
      "; the low one must be above 0 and below the high one");
  bounded(where, "original_positions", r.original_positions);
  FLOTILLA_REQUIRE(!r.yarn || !r.linear, ErrorKind::bad_input, where,
                   ": rotary positions are stretched linearly and by YaRN; one must be off");
  FLOTILLA_REQUIRE(r.attention_factor == 0 || (r.yarn && std::isfinite(r.attention_factor) && r.attention_factor > 0), ErrorKind::bad_input,
                   where, ": the rotary attention_factor is ", r.attention_factor, "; it must be above 0 under YaRN, and 0 otherwise");
  FLOTILLA_REQUIRE(r.window_theta == 0 || (c.rotates() && std::isfinite(r.window_theta) && r.window_theta >= 1), ErrorKind::bad_input,
                   where, ": the rotary theta of windows is ", r.window_theta,
                   "; it must be 1 or more where positions are rotary, or 0 for that of other blocks");
}

void check_positions(const Config& c, std::string_view where) {
  FLOTILLA_REQUIRE(c.rotary.width >= 0 && c.rotary.width % 2 == 0 && c.rotary.width <= c.head_size(), ErrorKind::bad_input, where,
                   ": the rotary width is ", c.rotary.width, "; it must be an even number of a head's ", c.head_size(),
                   " columns, or 0 for all");
  FLOTILLA_REQUIRE(!c.alibi || !c.rotates(), ErrorKind::bad_input, where, ": positions are both rotary and alibi; one of them must be off");
  FLOTILLA_REQUIRE(!c.embedding_norm || (!c.projects() && !c.has_position_table()), ErrorKind::bad_input, where,
                   ": embedding_norm is true; it must be false where tokens are projected or have a table of positions");
  FLOTILLA_REQUIRE(!c.parallel_residual || c.norm == NormPlacement::pre, ErrorKind::bad_input, where,
                   ": parallel_residual is true; the norms must then stand before the sub-layers");
}

void not_negative(std::string_view where, const char* field, double value) {
  FLOTILLA_REQUIRE(std::isfinite(value) && value >= 0, ErrorKind::bad_input, where, ": ", field, " is ", value,
                   "; it must be above 0, or 0 for none");
}

void check_scores(const Config& c, std::string_view where) {
  not_negative(where, "score_width", c.score_width);
  not_negative(where, "score_cap", c.score_cap);
  not_negative(where, "logit_cap", c.logit_cap);
  FLOTILLA_REQUIRE(c.score_cap == 0 || !c.alibi, ErrorKind::bad_input, where, ": score_cap is ", c.score_cap, "; it must be 0 with alibi");
  FLOTILLA_REQUIRE(c.score_width == 0 || c.scaled_scores, ErrorKind::bad_input, where, ": score_width is ", c.score_width,
                   "; it must be 0 where scores are not scaled");
}

void check_norms(const Config& c, std::string_view where) {
  FLOTILLA_REQUIRE(!c.norm_offset || c.norm_kind == NormKind::rms, ErrorKind::bad_input, where,
                   ": norm_offset is true; the norms must then be of kind rms");
  FLOTILLA_REQUIRE(!c.output_norms || (c.norm == NormPlacement::pre && !c.parallel_residual), ErrorKind::bad_input, where,
                   ": output_norms is true; norms must then stand before the sub-layers, too, and these one after the other");
}

void check_windows(const Config& c, std::string_view where) {
  constexpr std::size_t most = 4096;  // each kind has products of its own
  FLOTILLA_REQUIRE(c.windows.size() <= most, ErrorKind::bad_input, where, ": there are ", c.windows.size(),
                   " attention windows; expected at most ", most);
  for (const int window : c.windows)
    FLOTILLA_REQUIRE(window >= 0 && window <= largest_extent, ErrorKind::bad_input, where, ": an attention window is ", window,
                     "; it must be 1 or more tokens, or 0 for all");
}

void check_lora(const Config& c, std::string_view where) {
  const Lora& l = c.lora;
  FLOTILLA_REQUIRE(l.rank >= 0 && l.rank <= c.hidden, ErrorKind::bad_input, where, ": LoRA's rank is ", l.rank,
                   "; it must be 1 to hidden (", c.hidden, "), or 0 for no adapters");
  if (!l.on()) return;
  in_fp32(where, "LoRA's alpha", l.alpha);
  FLOTILLA_REQUIRE(!l.targets.empty(), ErrorKind::bad_input, where,
                   ": LoRA has no targets; name attention.qkv, attention.out, feed_forward.up or feed_forward.down");
  for (const Linear linear : l.targets)
    FLOTILLA_REQUIRE(std::ranges::count(l.targets, linear) == 1, ErrorKind::bad_input, where, ": LoRA's target ", to_string(linear),
                     " stands twice");
  FLOTILLA_REQUIRE(l.qkv_parts == 1 || l.qkv_parts == 3, ErrorKind::bad_input, where, ": LoRA's qkv_parts is ", l.qkv_parts,
                   "; it must be 1 or 3");
  FLOTILLA_REQUIRE(l.up_parts == 1 || (l.up_parts == 2 && c.gated()), ErrorKind::bad_input, where, ": LoRA's up_parts is ", l.up_parts,
                   "; it must be 1, or 2 with SwiGLU or GeGLU");
}

/// Also of what all columns that a token goes through come to.
void check_experts(const Config& c, std::string_view where) {
  const Experts& x = c.experts;
  FLOTILLA_REQUIRE(!c.wide_head_norms || c.query_key_norms, ErrorKind::bad_input, where,
                   ": wide_head_norms is true; query_key_norms must then be true, too");
  if (!x.on()) return;
  bounded(where, "experts.count", x.count);
  bounded(where, "experts.width", x.width);
  FLOTILLA_REQUIRE(x.per_token >= 1 && x.per_token <= x.count, ErrorKind::bad_input, where, ": experts.per_token is ", x.per_token,
                   "; it must be 1 to experts.count (", x.count, ")");
  FLOTILLA_REQUIRE(x.shared_width >= 0 && std::int64_t{x.per_token} * x.width + x.shared_width <= largest_extent, ErrorKind::bad_input,
                   where, ": a token goes through ", x.per_token, " experts of ", x.width, " columns and ", x.shared_width,
                   " shared ones; these must be at most ", largest_extent, " in all, and none below 0");
  FLOTILLA_REQUIRE(!x.shared_gate || x.shared_width > 0, ErrorKind::bad_input, where,
                   ": experts.shared_gate is true; experts.shared_width must then be 1 or more");
  for (std::size_t i = 0; i < x.dense_blocks.size(); ++i)
    FLOTILLA_REQUIRE(x.dense_blocks[i] >= 0 && x.dense_blocks[i] < c.blocks && (i == 0 || x.dense_blocks[i - 1] < x.dense_blocks[i]),
                     ErrorKind::bad_input, where, ": experts.dense_blocks has ", x.dense_blocks[i], "; it must be blocks from 0 to ",
                     c.blocks - 1, ", each once, in order");
  FLOTILLA_REQUIRE(c.expert_blocks() > 0, ErrorKind::bad_input, where,
                   ": every block is one of experts.dense_blocks; one must have experts");
  FLOTILLA_REQUIRE(!c.lora.on(), ErrorKind::bad_input, where, ": LoRA is asked for in a model with experts; Flotilla forecasts these ",
                   "trained whole, or with frozen tensors");
}

}  // namespace

int largest_tensor_parallel(const Config& c) {
  int most = std::min(c.groups(), c.vocabulary);
  if (c.has_dense_blocks()) most = std::min(most, c.feed_forward);
  if (c.experts.on()) most = std::min(most, c.experts.width);
  return c.experts.shared_width > 0 ? std::min(most, c.experts.shared_width) : most;
}

std::string_view limit_of_tensor_parallel(const Config& c) {
  const int most = largest_tensor_parallel(c);
  if (most == c.groups()) return c.shares_keys() ? "the number of key and value heads" : "the number of heads";
  return most == c.vocabulary ? "the vocabulary" : "the feed-forward columns";
}

std::optional<std::string> forecast_only(const Config& c) {
  if (c.experts.on()) return "a mixture of experts";
  if (c.wide_head_norms) return "norms over the columns of all heads";
  return std::nullopt;
}

void require_executable(const Config& c, std::string_view where) {
  const auto what = forecast_only(c);
  FLOTILLA_REQUIRE(!what, ErrorKind::bad_input, where, ": the model has ", *what,
                   ", which Flotilla forecasts but does not execute; use 'flotilla plan' and 'flotilla simulate', or another model");
}

void check(const Config& c, std::string_view where) {
  positive(where, "blocks", c.blocks);
  FLOTILLA_REQUIRE(c.blocks <= most_blocks, ErrorKind::bad_input, where, ": blocks is ", c.blocks, "; it must be at most ", most_blocks,
                   ": no deeper model is known, and planning takes time and memory in proportion");
  bounded(where, "hidden", c.hidden);
  bounded(where, "heads", c.heads);
  bounded(where, "feed_forward", c.feed_forward);
  bounded(where, "vocabulary", c.vocabulary);
  bounded(where, "positions", c.positions);
  bounded(where, "embedding_width", c.embedding_width);
  check_heads(c, where);
  check_groups(c, where);
  check_rotary(c, where);
  check_positions(c, where);
  check_norms(c, where);
  check_scores(c, where);
  check_windows(c, where);
  FLOTILLA_REQUIRE(c.position_offset >= 0 && c.position_offset <= largest_extent, ErrorKind::bad_input, where, ": position_offset is ",
                   c.position_offset, "; it must be 0 or more");
  in_fp32(where, "norm_epsilon", c.norm_epsilon);
  in_fp32(where, "init_std", c.init_std);
  probability(where, "dropout", c.dropout);
  probability(where, "attention_dropout", c.attention_dropout);
  check_lora(c, where);
  check_experts(c, where);
}

}  // namespace flotilla::model
