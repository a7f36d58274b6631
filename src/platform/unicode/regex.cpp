#define PCRE2_CODE_UNIT_WIDTH 8
#include "flotilla/unicode/regex.hpp"

#include <pcre2.h>
#include <utf8proc.h>

#include <array>

#include "dialect.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/unique_handle.hpp"

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

UniqueHandle<CodeTraits> compile(std::string_view pattern, std::uint32_t options) {
  int error = 0;
  std::size_t place = 0;
  UniqueHandle<CodeTraits> code{
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options | PCRE2_UTF, &error, &place, nullptr)};
  FLOTILLA_REQUIRE(code.get(), ErrorKind::bad_input, "regular expression, near byte ", place, ": ", words_of(error));
  // Without a compiler for this processor PCRE2 interprets: slower, and the same.
  static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
  return code;
}

}  // namespace

struct Regex::State {
  UniqueHandle<CodeTraits> code;
};

// Ruby's ^ and $ are those of lines.
Regex::Regex(std::string_view pattern) : state_{std::make_shared<State>(State{compile(in_pcre2(pattern), PCRE2_UCP | PCRE2_MULTILINE)})} {}

Regex Regex::literal(std::string_view text) { return Regex{std::make_shared<State>(State{compile(text, PCRE2_LITERAL)})}; }

std::optional<Match> Regex::find(std::string_view text, std::size_t from) const {
  auto& mine = scratch();
  const int count = pcre2_match(state_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK,
                                mine.data.get(), mine.context.get());
  if (count == PCRE2_ERROR_NOMATCH) return std::nullopt;
  FLOTILLA_REQUIRE(count >= 0, ErrorKind::bad_input, "regular expression: ", words_of(count), " in a text of ", text.size(), " bytes");
  const auto* place = pcre2_get_ovector_pointer(mine.data.get());
  return Match{place[0], place[1]};
}

std::string library_version() {
  std::array<char, 64> pcre2{};
  pcre2_config(PCRE2_CONFIG_VERSION, pcre2.data());
  const std::string_view number{pcre2.data()};
  return text("PCRE2 ", number.substr(0, number.find(' ')), ", utf8proc ", utf8proc_version());
}

}  // namespace flotilla::unicode
