#include "bench_load.hpp"

#include "flotilla/base/text.hpp"

namespace flotilla::files::detail {
namespace {

using bench::CardEntry;
using bench::Soak;

/// A counter that the kernel or a GPU may not have; that of GPUs is missing in older reports.
Node count_node(const std::optional<std::int64_t>& count) { return count ? Node{*count} : Node{}; }

std::optional<std::int64_t> count_of(const Json& object, std::string_view key) {
  if (!object.has(key) || object.at(key).is_null()) return std::nullopt;
  return object.get_int64(key, 0);
}

Node window_node(const bench::SoakWindow& w) {
  return Node::Object{{"at_seconds", w.at.value},
                      {"steps_per_second", w.steps},
                      {"step_seconds", w.step.value},
                      {"others_share", w.others},
                      {"temperature_celsius", w.temperature},
                      {"frequency_hertz", w.frequency},
                      {"gpu_steps_per_second", w.gpu_steps},
                      {"gpu_step_seconds", w.gpu_step.value}};
}

bench::SoakWindow window_of(const Json& w) {
  return {{w.get_double("at_seconds", 0)},
          w.get_double("steps_per_second", 0),
          {w.get_double("step_seconds", 0)},
          w.get_double("others_share", -1),
          w.get_double("temperature_celsius"),
          w.get_double("frequency_hertz", 0),
          w.has("gpu_step_seconds") ? w.get_double("gpu_steps_per_second", 0) : 0,
          {w.has("gpu_step_seconds") ? w.get_double("gpu_step_seconds", 0) : 0}};
}

Node wrong_node(const bench::WrongStep& w) {
  return Node::Object{{"at_seconds", w.at.value}, {"device", w.device}, {"digest", w.digest}, {"expected", w.expected}};
}

bench::WrongStep wrong_of(const Json& w) {
  return {{w.get_double("at_seconds", 0)},
          w.has("cpu") ? text("hardware thread ", w.get_int("cpu", 0)) : w.get_string("device"),
          w.get_string("digest"),
          w.get_string("expected")};
}

Node entry_node(const CardEntry& e) {
  return Node::Object{{"model", e.model},
                      {"precision", e.precision},
                      {"length", e.length},
                      {"batch", e.batch},
                      {"ranks", e.ranks},
                      {"plan", e.plan},
                      {"steps", e.steps},
                      {"tokens_per_second", e.tokens_per_second},
                      {"forecast_tokens_per_second", e.forecast},
                      {"watts", e.watts},
                      {"power", e.power},
                      {"billing_units", e.billing},
                      {"billing_unknown", e.billing_unknown},
                      {"memory_left_bytes", e.memory_left.count},
                      {"refusal", e.refusal}};
}

CardEntry entry_of(const Json& e) {
  CardEntry entry;
  entry.model = e.get_string("model");
  entry.precision = e.get_string("precision");
  entry.length = e.get_int("length", 0);
  entry.batch = e.get_int("batch", 0);
  entry.ranks = e.get_int("ranks", 0);
  entry.plan = e.get_string("plan");
  entry.steps = e.get_int("steps", 0);
  entry.tokens_per_second = e.get_double("tokens_per_second", 0);
  entry.forecast = e.get_double("forecast_tokens_per_second", 0);
  entry.watts = e.get_double("watts", 0);
  entry.power = e.get_string("power");
  entry.billing = e.get_double("billing_units", 0);
  entry.billing_unknown = e.get_string("billing_unknown");
  entry.memory_left = {e.get_int64("memory_left_bytes", 0)};
  entry.refusal = e.get_string("refusal");
  return entry;
}

template <class T, class ToNode>
Node::Array load_array(const std::vector<T>& all, ToNode to_node) {
  Node::Array array;
  for (const auto& one : all) array.push_back(to_node(one));
  return array;
}

}  // namespace

Node card_node(const std::vector<CardEntry>& card) { return load_array(card, entry_node); }

std::vector<CardEntry> card_of(const Json& list) {
  std::vector<CardEntry> card;
  for (const auto& entry : list.items()) card.push_back(entry_of(entry));
  return card;
}

Node soak_node(const Soak& s) {
  return Node::Object{{"wanted_seconds", s.wanted.value},
                      {"seconds", s.lasted.value},
                      {"ended", s.ended},
                      {"steps", s.steps},
                      {"wrong_steps", s.wrong_steps},
                      {"wrong", load_array(s.wrong, wrong_node)},
                      {"throttled", count_node(s.throttled)},
                      {"corrected_memory_errors", count_node(s.corrected)},
                      {"uncorrected_memory_errors", count_node(s.uncorrected)},
                      {"gpus", s.gpus},
                      {"gpu_throttled", count_node(s.gpu_throttled)},
                      {"gpu_corrected_memory_errors", count_node(s.gpu_corrected)},
                      {"gpu_uncorrected_memory_errors", count_node(s.gpu_uncorrected)},
                      {"windows", load_array(s.windows, window_node)}};
}

Soak soak_of(const Json& s) {
  Soak soak;
  soak.wanted = {s.get_double("wanted_seconds", 0)};
  soak.lasted = {s.get_double("seconds", 0)};
  soak.ended = s.get_string("ended");
  soak.steps = s.get_int64("steps", 0);
  soak.wrong_steps = s.get_int64("wrong_steps", 0);
  for (const auto& wrong : s.at("wrong").items()) soak.wrong.push_back(wrong_of(wrong));
  soak.throttled = count_of(s, "throttled");
  soak.corrected = count_of(s, "corrected_memory_errors");
  soak.uncorrected = count_of(s, "uncorrected_memory_errors");
  soak.gpus = s.has("gpus") ? s.get_int("gpus", 0) : 0;
  soak.gpu_throttled = count_of(s, "gpu_throttled");
  soak.gpu_corrected = count_of(s, "gpu_corrected_memory_errors");
  soak.gpu_uncorrected = count_of(s, "gpu_uncorrected_memory_errors");
  for (const auto& window : s.at("windows").items()) soak.windows.push_back(window_of(window));
  return soak;
}

}  // namespace flotilla::files::detail
