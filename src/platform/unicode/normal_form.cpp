#include "flotilla/unicode/normal_form.hpp"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "flotilla/base/error.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::unicode {
namespace {

constexpr int options_of(NormalForm form) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
}

bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string{text};
  utf8proc_uint8_t* result = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                                 &result, static_cast<utf8proc_option_t>(options_of(form)));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owned{result, std::free};
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc{};
  FLOTILLA_REQUIRE(size >= 0, ErrorKind::bad_input, "normalization: ", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

}  // namespace flotilla::unicode
