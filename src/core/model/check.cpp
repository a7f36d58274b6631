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

}  // namespace

void check(const Config& c, std::string_view where) {
  bounded(where, "blocks", c.blocks);
  bounded(where, "hidden", c.hidden);
  bounded(where, "heads", c.heads);
  bounded(where, "feed_forward", c.feed_forward);
  bounded(where, "vocabulary", c.vocabulary);
  bounded(where, "positions", c.positions);
  bounded(where, "embedding_width", c.embedding_width);
  FLOTILLA_REQUIRE(c.hidden % c.heads == 0, ErrorKind::bad_input, where, ": hidden is ", c.hidden, "; it must be a multiple of heads (",
                   c.heads, ")");
  FLOTILLA_REQUIRE(c.position_offset >= 0 && c.position_offset <= largest_extent, ErrorKind::bad_input, where, ": position_offset is ",
                   c.position_offset, "; it must be 0 or more");
  FLOTILLA_REQUIRE(std::isfinite(c.norm_epsilon) && c.norm_epsilon > 0, ErrorKind::bad_input, where, ": norm_epsilon is ", c.norm_epsilon,
                   "; it must be above 0");
  FLOTILLA_REQUIRE(std::isfinite(c.init_std) && c.init_std > 0, ErrorKind::bad_input, where, ": init_std is ", c.init_std,
                   "; it must be above 0");
  probability(where, "dropout", c.dropout);
  probability(where, "attention_dropout", c.attention_dropout);
}

}  // namespace flotilla::model
