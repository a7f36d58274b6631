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

void bounded(std::string_view where, const char* field, int value) {
  positive(where, field, value);
  FLOTILLA_REQUIRE(value <= largest_extent, ErrorKind::bad_input, where, ": ", field, " is ", value, "; it must be at most ",
                   largest_extent);
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
  FLOTILLA_REQUIRE(std::isfinite(l.alpha) && l.alpha > 0, ErrorKind::bad_input, where, ": LoRA's alpha is ", l.alpha,
                   "; it must be above 0");
  FLOTILLA_REQUIRE(!l.targets.empty(), ErrorKind::bad_input, where,
                   ": LoRA has no targets; name attention.qkv, attention.out, "
                   "feed_forward.up or feed_forward.down");
  for (const Linear linear : l.targets)
    FLOTILLA_REQUIRE(std::ranges::count(l.targets, linear) == 1, ErrorKind::bad_input, where, ": LoRA's target ", to_string(linear),
                     " stands twice");
  FLOTILLA_REQUIRE(l.qkv_parts == 1 || l.qkv_parts == 3, ErrorKind::bad_input, where, ": LoRA's qkv_parts is ", l.qkv_parts,
                   "; it must be 1 or 3");
  FLOTILLA_REQUIRE(l.up_parts == 1 || (l.up_parts == 2 && c.gated()), ErrorKind::bad_input, where, ": LoRA's up_parts is ", l.up_parts,
                   "; it must be 1, or 2 with SwiGLU");
}

}  // namespace

int largest_tensor_parallel(const Config& c) { return std::min({c.groups(), c.feed_forward, c.vocabulary}); }

std::string_view limit_of_tensor_parallel(const Config& c) {
  const int most = largest_tensor_parallel(c);
  if (most == c.groups()) return c.shares_keys() ? "the number of key and value heads" : "the number of heads";
  return most == c.feed_forward ? "the feed-forward columns" : "the vocabulary";
}

void check(const Config& c, std::string_view where) {
  bounded(where, "blocks", c.blocks);
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
  check_windows(c, where);
  FLOTILLA_REQUIRE(c.position_offset >= 0 && c.position_offset <= largest_extent, ErrorKind::bad_input, where, ": position_offset is ",
                   c.position_offset, "; it must be 0 or more");
  FLOTILLA_REQUIRE(std::isfinite(c.norm_epsilon) && c.norm_epsilon > 0, ErrorKind::bad_input, where, ": norm_epsilon is ", c.norm_epsilon,
                   "; it must be above 0");
  FLOTILLA_REQUIRE(std::isfinite(c.init_std) && c.init_std > 0, ErrorKind::bad_input, where, ": init_std is ", c.init_std,
                   "; it must be above 0");
  probability(where, "dropout", c.dropout);
  probability(where, "attention_dropout", c.attention_dropout);
  check_lora(c, where);
}

}  // namespace flotilla::model
