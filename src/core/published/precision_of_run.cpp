#include "precision_of_run.hpp"

#include <cctype>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::published {
namespace {

/// When the scale of a tensor is known that is converted (Micikevicius et al. 2022; OCP Microscaling Formats 2023).
enum class Scaling {
  delayed,  ///< from earlier steps: one pass over the tensor
  current,  ///< from the tensor's own largest value: one pass to find it, one to convert
  rows,     ///< the same of each row, or column, of it
  blocks,   ///< of each 32 or 128 numbers by themselves, found as they are converted
};

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool says(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

bool is_fp4(const std::string& precision) { return says(lower_case(precision), "fp4"); }

/// "FP8-CS (FP8-MX)" is the first of two figures of a table's cell, "second figure: FP8-CS (FP8-MX)" the one in brackets.
Scaling scaling_of(const Run& run) {
  const std::string words = lower_case(run.precision);
  const bool second = words.starts_with("second figure");
  const auto bracket = words.find(" (");
  const std::string meant = second ? words.substr(bracket == std::string::npos ? 0 : bracket) : words.substr(0, bracket);
  if (says(meant, "rowwise")) return Scaling::rows;
  if (says(meant, "mx") || says(meant, "block") || says(meant, "fp4")) return Scaling::blocks;
  if (says(meant, "cs") || says(meant, "wise") || run.runtime.starts_with("torchtitan")) return Scaling::current;
  return Scaling::delayed;
}

constexpr double half_bytes = 2;
constexpr int copies = 2;  // by rows and by columns, for the products that take a tensor transposed

/// Products whose operands have a scale for each block read these, too. Megatron-Bridge's runs of one plan with one scale a tensor and with
/// blocks (25.09 and 25.11, Blackwell, large products) differ by 6 %, of which products take four fifths.
constexpr double block_scaled = 0.93;

/// Products with a scale for each row are kernels of CUTLASS in PyTorch. Llama 3 8B gets 24.8 % faster by FP8 with one scale a tensor, and
/// 10.4 % with one a row (torchtitan's commit 7a04053, January 2025); products in FP8 are 0.31 of its time in bf16.
constexpr double row_scaled = 0.76;

/// Of the rate with one scale a tensor.
double share_of(Scaling scaling) {
  switch (scaling) {
    case Scaling::rows: return row_scaled;
    case Scaling::blocks: return block_scaled;
    default: return 1;
  }
}

/// Transformer Engine's linear layers keep their input as converted; those of torchao, which torchtitan uses, as it came.
bool keeps_converted(const Run& run) { return !run.runtime.starts_with("torchtitan"); }

bool is_narrow(const std::string& precision) {
  const std::string said = lower_case(precision);
  return says(said, "fp8") || says(said, "float8") || is_fp4(said);
}

}  // namespace

std::optional<Precision> precision_of(const Run& run) {
  const std::string said = lower_case(run.precision);
  if (is_narrow(said) || says(said, "bf16") || says(said, "bfloat16")) return Precision::bf16;
  if (said.starts_with("fp16")) return Precision::fp16;
  if (said.starts_with("fp32")) return Precision::fp32;
  return std::nullopt;
}

std::optional<program::NarrowProducts> narrow_products_of(const Run& run, const cluster::CatalogueEntry& device) {
  if (!is_narrow(run.precision)) return std::nullopt;
  const bool fp4 = is_fp4(run.precision);
  const cluster::ProductFigures& narrow = fp4 ? device.fp4 : device.fp8;
  FLOTILLA_REQUIRE(narrow.peak.known() && device.bf16.peak.known(), ErrorKind::unavailable, "products of ", fp4 ? "FP4" : "FP8", " on ",
                   in_quotes(device.name));
  const auto sustained = [&](const cluster::ProductFigures& f) {
    return f.peak.value * (f.matrix.known() ? f.matrix.value : device.bf16.matrix.value);
  };
  const Scaling scaling = scaling_of(run);
  const double narrowed = fp4 ? 0.5 : 1;
  const int passes = scaling == Scaling::current || scaling == Scaling::rows ? 2 : 1;
  const double speed = share_of(scaling) * sustained(narrow) / sustained(device.bf16);
  return program::NarrowProducts{speed, passes * half_bytes + copies * narrowed, passes, keeps_converted(run) ? narrowed : half_bytes};
}

}  // namespace flotilla::published
