#include "document.hpp"

#include "flotilla/base/foreign_text.hpp"

namespace flotilla::files {

void require_format(const Json& document, std::string_view format, std::int64_t version) {
  if (!document.has("format")) document.refuse(text("key 'format' is missing; expected \"format\": \"", format, "\""));
  const Json found = document.at("format");
  if (found.as_string() != format) found.refuse(text("expected ", in_quotes(format), ", got ", found.one_line()));
  const Json number = document.at("version");
  if (number.as_int64() != version)
    number.refuse(text("version ", number.as_int64(), " is unknown; this flotilla reads version ", version, " of ", format));
}

}  // namespace flotilla::files
