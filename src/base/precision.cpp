#include "flotilla/base/precision.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla {

std::string to_string(Precision p) { return p == Precision::fp32 ? "fp32" : "bf16"; }

Precision parse_precision(std::string_view name) {
  if (name == "fp32") return Precision::fp32;
  if (name == "bf16") return Precision::bf16;
  throw Error{ErrorKind::bad_input, text("'", name, "' is not a precision; expected fp32 or bf16")};
}

}  // namespace flotilla
