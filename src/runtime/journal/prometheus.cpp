#include "flotilla/journal/prometheus.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "process.hpp"

namespace flotilla::journal {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

std::string metric(const char* name, const char* help, double value, const std::string& labels) {
  return text("# HELP flotilla_", name, " ", help, "\n# TYPE flotilla_", name, " gauge\nflotilla_", name, "{", labels, "} ", number(value),
              "\n");
}

}  // namespace

std::string prometheus_label(std::string_view name, std::string_view value) {
  std::string out = text(name, "=\"");
  for (char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;  // the format can say a line end only
    out += c == '\n' ? std::string{"\\n"} : std::string(1, control ? '?' : c);
  }
  return out + '"';
}

std::string prometheus_labels(const std::string& run, const std::string& job) {
  return text(prometheus_label("run", run), ",", prometheus_label("job", job));
}

std::string prometheus_text(const StepRecord& r, std::int64_t checkpoint_step, const std::string& labels) {
  return metric("step", "Steps completed.", static_cast<double>(r.step), labels) +
         metric("loss", "Mean loss of the last step.", r.loss, labels) +
         metric("tokens_per_second", "Tokens a second of the whole run, last step.", r.tokens_per_second, labels) +
         metric("step_seconds", "Duration of the last step.", r.step_seconds, labels) +
         metric("share_of_peak_ratio", "Model FLOPs over what the devices could have done.", r.share_of_peak, labels) +
         metric("learning_rate", "Used in the last step.", r.learning_rate, labels) +
         metric("gradient_norm", "Before clipping, last step.", r.gradient_norm, labels) +
         metric("eta_seconds", "Until the last step, expected.", r.eta_seconds, labels) +
         metric("incarnation", "Start of the run that this is, from 1.", r.incarnation, labels) +
         metric("checkpoint_step", "Step of the last checkpoint of this incarnation; 0: none.", static_cast<double>(checkpoint_step),
                labels) +
         metric("last_step_timestamp_seconds", "When the last step was complete.", r.time, labels);
}

PrometheusFile::PrometheusFile(std::filesystem::path file, std::string run, std::string job, Seconds every)
    : file_{std::move(file)}, labels_{prometheus_labels(run, job)}, every_{every} {}

void PrometheusFile::update(const StepRecord& record, bool last) noexcept {
  try {
    if (!last && now() - written_ < every_) return;
    written_ = now();
    auto stamped = record;
    if (stamped.time == 0) stamped.time = wall_clock();
    const auto facts = files::facts_of(file_);
    FLOTILLA_REQUIRE(!facts || facts->type == files::FileType::regular, ErrorKind::bad_input, file_.string(),
                     ": is no regular file; a step does not wait for who reads a pipe");
    // Not flushed to the disk: after a crash the next step says it again.
    files::write_text(file_, prometheus_text(stamped, checkpoint_, labels_), files::Flush::no);
  } catch (const std::exception& error) {
    if (!complained_) log::warning(error.what(), "; training continues without it (--report.prometheus)");
    complained_ = true;
  } catch (...) {
  }
}

}  // namespace flotilla::journal
