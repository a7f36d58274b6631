#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The records of TensorBoard's event files: TensorFlow's TFRecord framing around its Event message (tensorflow/core/util/event.proto,
/// framework/summary.proto, framework/tensor.proto), the few fields of them that Flotilla writes.
namespace flotilla::journal {

struct Scalar {
  std::string tag;
  double value = 0;  ///< kept as fp32
};

/// The first record of every file.
std::string event_of_version(double time);
/// What TensorBoard knows of this step and later ones is void from here on: a run starts here again.
std::string event_of_start(double time, std::int64_t step);
std::string event_of_scalars(double time, std::int64_t step, const std::vector<Scalar>&);
/// Markdown, on TensorBoard's page of texts.
std::string event_of_text(double time, std::int64_t step, std::string_view tag, std::string_view markdown);

}  // namespace flotilla::journal
