#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "flotilla/base/units.hpp"
#include "flotilla/journal/metrics.hpp"

namespace flotilla::journal {

/// The newest figures of a run in Prometheus' text format, for node_exporter's textfile collector: whole or not at all, at most once in
/// `every`. Rank 0 alone has one. Nothing throws after construction: metrics never stop training; the first file that cannot be written is
/// reported on standard error, once.
class PrometheusFile {
 public:
  /// `run` and `job` become labels.
  PrometheusFile(std::filesystem::path file, std::string run, std::string job, Seconds every = Seconds{5});

  /// `last`: write it now, whatever the time.
  void update(const StepRecord&, bool last) noexcept;
  void saved(std::int64_t step) noexcept { checkpoint_ = step; }

 private:
  std::filesystem::path file_;
  std::string labels_;
  Seconds every_, written_{-1e9};
  std::int64_t checkpoint_ = 0;
  bool complained_ = false;
};

/// The file's text. `labels` is what stands between the braces.
std::string prometheus_text(const StepRecord&, std::int64_t checkpoint_step, const std::string& labels);
/// name="value": quotes, backslashes and line ends escaped; '?' for other control characters.
std::string prometheus_label(std::string_view name, std::string_view value);
/// run="...",job="...".
std::string prometheus_labels(const std::string& run, const std::string& job);

}  // namespace flotilla::journal
