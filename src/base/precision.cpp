#include "flotilla/base/precision.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla {

std::string to_string(Precision p) {
  switch (p) {
    case Precision::fp32: return "fp32";
    case Precision::bf16: return "bf16";
    case Precision::fp16: break;
  }
  return "fp16";
}

Precision parse_precision(std::string_view name) {
  if (name == "fp32") return Precision::fp32;
  if (name == "bf16") return Precision::bf16;
  if (name == "fp16") return Precision::fp16;
  throw Error{ErrorKind::bad_input,
              text(in_quotes(name), " is not a precision; expected fp32, bf16 or fp16 (TF32: fp32 with --device.tf32)")};
}

}  // namespace flotilla
