#define PCRE2_CODE_UNIT_WIDTH 8
#include "flotilla/unicode/regex.hpp"

#include <pcre2.h>
#include <utf8proc.h>

#include <array>
#include <ctime>

#include "dialect.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/unique_handle.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::unicode {
namespace {

struct CodeTraits {
  using Raw = pcre2_code*;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw code) noexcept { pcre2_code_free(code); }
};
struct MatchDataTraits {
  using Raw = pcre2_match_data*;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw data) noexcept { pcre2_match_data_free(data); }
};
struct MatchContextTraits {
  using Raw = pcre2_match_context*;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw context) noexcept { pcre2_match_context_free(context); }
};
struct StackTraits {
  using Raw = pcre2_jit_stack*;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw stack) noexcept { pcre2_jit_stack_free(stack); }
};

std::string words_of(int error) {
  std::array<PCRE2_UCHAR, 200> words{};
  pcre2_get_error_message(error, words.data(), words.size());
  return reinterpret_cast<const char*>(words.data());
}

/// What a thread needs to execute any pattern.
struct Scratch {
  static constexpr std::size_t least_stack = 32 << 10, most_stack = 64 << 20;

  UniqueHandle<MatchDataTraits> data{pcre2_match_data_create(1, nullptr)};
  UniqueHandle<MatchContextTraits> context{pcre2_match_context_create(nullptr)};
  UniqueHandle<StackTraits> stack{pcre2_jit_stack_create(least_stack, most_stack, nullptr)};
  Scratch() {
    if (!data.get() || !context.get()) throw std::bad_alloc{};
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

/// What a search may look at and do: first at once, then for one start alone.
struct Reach {
  std::size_t window = 64;
  std::uint32_t steps = 512;
  bool alone = false;
};
/// More than a line of any text takes.
constexpr std::uint32_t most_steps = 1 << 30;

/// Not within a character.
std::size_t end_of_window(std::string_view text, std::size_t from, std::size_t window) {
  if (window >= text.size() - from) return text.size();
  auto end = from + window;
  while (end < text.size() && !begins_character(text[end])) ++end;
  return end;
}

UniqueHandle<CodeTraits> compile(std::string_view pattern, std::uint32_t options) {
  int error = 0;
  std::size_t place = 0;
  UniqueHandle<CodeTraits> code{pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                              options | PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT, &error, &place, nullptr)};
  FLOTILLA_REQUIRE(code.get(), ErrorKind::bad_input, "regular expression, near byte ", place, ": ", words_of(error));
  // Without a compiler for this processor PCRE2 interprets: slower, and the same.
  static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD));
  return code;
}

}  // namespace

struct Regex::State {
  UniqueHandle<CodeTraits> code;
};

namespace {

/// The library's answer, and the place of what matched, or began to.
std::pair<int, Match> match_in(const pcre2_code* code, std::string_view text, std::size_t from, std::size_t end, Reach reach) {
  auto& mine = scratch();
  pcre2_set_match_limit(mine.context.get(), reach.steps);
  pcre2_set_offset_limit(mine.context.get(), reach.alone ? from : PCRE2_UNSET);
  const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), end, from,
                                PCRE2_NO_UTF_CHECK | (end == text.size() ? 0 : PCRE2_PARTIAL_HARD), mine.data.get(), mine.context.get());
  const auto* const place = pcre2_get_ovector_pointer(mine.data.get());
  return {count, count >= 0 || count == PCRE2_ERROR_PARTIAL ? Match{place[0], place[1]} : Match{from, from}};
}

std::size_t nanoseconds_of_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::size_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::size_t>(time.tv_nsec);
}

}  // namespace

// Ruby's ^ and $ are those of lines.
Regex::Regex(std::string_view pattern) : state_{std::make_shared<State>(State{compile(in_pcre2(pattern), PCRE2_UCP | PCRE2_MULTILINE)})} {}

Regex Regex::literal(std::string_view text) { return Regex{std::make_shared<State>(State{compile(text, PCRE2_LITERAL)})}; }

/// The library does not say what a match has cost. So it sees a window of the text, and takes few steps. A start whose match asks what
/// stands behind the window, or takes more steps, is tried again alone, with twice of that. A step may look at all of the window: alone, a
/// nanosecond of this thread counts as a look, too.
std::optional<Match> Regex::find(std::string_view text, std::size_t from, MatchEffort& effort) const {
  for (Reach reach; from <= text.size();) {
    const auto end = end_of_window(text, from, reach.window);
    const auto began = reach.alone ? nanoseconds_of_thread() : 0;
    const auto [count, place] = match_in(state_->code.get(), text, from, end, reach);
    const auto starts = reach.alone                                                       ? 1
                        : count == PCRE2_ERROR_NOMATCH || count == PCRE2_ERROR_MATCHLIMIT ? end - from + 1
                                                                                          : place.first - from + 1;
    effort.spend(starts * reach.window + (reach.alone ? nanoseconds_of_thread() - began : 0));
    if (count >= 0) return place;
    if (count == PCRE2_ERROR_NOMATCH) {
      if (end == text.size() && !reach.alone) return std::nullopt;
      from = !reach.alone ? end : from < text.size() ? from + character_bytes(text[from]) : from + 1;
      reach = {};
    } else if (count == PCRE2_ERROR_PARTIAL && place.first > from) {
      from = place.first;
      reach = {};
    } else {
      FLOTILLA_REQUIRE(count == PCRE2_ERROR_PARTIAL || (count == PCRE2_ERROR_MATCHLIMIT && reach.steps < most_steps), ErrorKind::bad_input,
                       "regular expression: ", words_of(count), " in a text of ", text.size(), " bytes");
      reach = count == PCRE2_ERROR_PARTIAL ? Reach{2 * reach.window, reach.steps, true} : Reach{reach.window, 2 * reach.steps, true};
    }
  }
  return std::nullopt;
}

std::string library_version() {
  std::array<char, 64> pcre2{};
  pcre2_config(PCRE2_CONFIG_VERSION, pcre2.data());
  const std::string_view number{pcre2.data()};
  return text("PCRE2 ", number.substr(0, number.find(' ')), ", utf8proc ", utf8proc_version());
}

}  // namespace flotilla::unicode
