// Compiled where PCRE2 or utf8proc is absent.
#include "flotilla/base/error.hpp"
#include "flotilla/unicode/normal_form.hpp"
#include "flotilla/unicode/regex.hpp"

namespace flotilla::unicode {
namespace {

[[noreturn]] void refuse() {
  throw Error{ErrorKind::unavailable,
              "built without PCRE2 and utf8proc, which read tokenizer.json; install libpcre2-dev and libutf8proc-dev, and build anew"};
}

}  // namespace

struct Regex::State {};
Regex::Regex(std::string_view) { refuse(); }
Regex Regex::literal(std::string_view) { refuse(); }
std::optional<Match> Regex::find(std::string_view, std::size_t, MatchEffort&) const { refuse(); }
std::string normalized(std::string_view, NormalForm) { refuse(); }
std::string library_version() { return "none: built without PCRE2 and utf8proc"; }

}  // namespace flotilla::unicode
