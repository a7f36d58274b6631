#include "flotilla/session/phases.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::session {
namespace {

std::optional<std::size_t> source_named(const std::vector<RunConfig::DataSource>& sources, std::string_view name) {
  const auto found = std::ranges::find(sources, name, &RunConfig::DataSource::name);
  return found == sources.end() ? std::nullopt : std::optional{static_cast<std::size_t>(found - sources.begin())};
}

double weight_in(std::string_view words, const std::string& all) {
  double weight = 0;
  const auto read = std::from_chars(words.data(), words.data() + words.size(), weight);
  FLOTILLA_REQUIRE(read.ec == std::errc{} && read.ptr == words.data() + words.size() && weight > 0 && weight <= 1e9, ErrorKind::bad_input,
                   in_quotes(all), ": expected a number above 0 and of at most 1e+09 behind =, as in web=0.2");
  return weight;
}

/// The source and its weight in the phase. A name may have a = in it.
std::pair<std::size_t, double> source_of(const std::string& word, const std::vector<RunConfig::DataSource>& sources) {
  if (const auto whole = source_named(sources, word)) return {*whole, sources[*whole].weight};
  const auto sign = word.rfind('=');
  const auto name = word.substr(0, sign);
  const auto found = source_named(sources, name);
  FLOTILLA_REQUIRE(found, ErrorKind::bad_input, in_quotes(name), " is the name of no [[data.source]]");
  return {*found, weight_in(std::string_view{word}.substr(sign + 1), word)};
}

Phase only_phase(const RunConfig& config) {
  const auto& t = config.training;
  return {"", 0, t.steps, t.length, t.global_batch};
}

train::LearningRate own_rate(const RunConfig::Training& t, const Phase& phase, std::int64_t steps) {
  const auto& own = phase.own;
  const auto schedule = *own.learning_rate_schedule;
  train::LearningRate rate;
  rate.peak = own.learning_rate.value_or(t.learning_rate);
  rate.minimum = own.minimum_learning_rate.value_or(std::min(t.minimum_learning_rate, rate.peak));
  rate.warmup_steps = own.warmup_steps;
  rate.total_steps = steps;
  rate.schedule = schedule;
  rate.cooldown_steps = train::cools_down(schedule) ? own.cooldown_steps : 0;
  if (train::cools_down(schedule) && own.cooldown_steps == 0) rate.cooldown_steps = usual_cooldown(steps);
  rate.first_step = phase.first_step;
  return rate;
}

}  // namespace

std::vector<double> phase_weights(const RunConfig::Phase& phase, const std::vector<RunConfig::DataSource>& sources) {
  if (phase.sources.empty()) return {};
  std::vector<double> weights(sources.size());
  for (const auto& word : phase.sources) {
    const auto [source, weight] = source_of(word, sources);
    FLOTILLA_REQUIRE(weights[source] == 0, ErrorKind::bad_input, in_quotes(sources[source].name), " is named twice");
    weights[source] = weight;
  }
  return weights;
}

std::int64_t declared_steps(const RunConfig& config) {
  if (config.phases.empty()) return config.training.steps;
  return std::accumulate(config.phases.begin(), config.phases.end(), std::int64_t{0},
                         [](std::int64_t sum, const RunConfig::Phase& phase) { return sum + phase.steps; });
}

std::vector<Phase> phases_of(const RunConfig& config) {
  if (config.phases.empty()) return {only_phase(config)};
  const auto& t = config.training;
  std::vector<Phase> phases;
  std::int64_t step = 0;
  for (const auto& own : config.phases) {
    if (step >= t.steps) break;
    phases.push_back({own.name, step, std::min(step + own.steps, t.steps), own.length > 0 ? own.length : t.length,
                      own.global_batch > 0 ? own.global_batch : t.global_batch, phase_weights(own, config.data.sources), own});
    step += own.steps;
  }
  return phases;
}

std::string spelled(const Phase& phase) { return "phase " + in_quotes(phase.name); }

std::string in_words(const Phase& phase) {
  return text(spelled(phase), ": steps ", phase.first_step + 1, " to ", phase.end, ", length ", phase.length, ", global batch ",
              phase.global_batch);
}

std::size_t phase_after(const std::vector<Phase>& phases, std::int64_t steps_done) {
  const auto after = std::ranges::upper_bound(phases, steps_done, {}, &Phase::first_step);
  return static_cast<std::size_t>(after - phases.begin()) - 1;
}

bool fits(const plan::Plan& plan, const Phase& phase) { return plan.length == phase.length && plan.global_batch == phase.global_batch; }

std::size_t end_of_shape(const std::vector<Phase>& phases, std::size_t phase) {
  const auto& first = phases[phase];
  while (phase < phases.size() && phases[phase].length == first.length && phases[phase].global_batch == first.global_batch) ++phase;
  return phase;
}

std::int64_t sequences_before(const std::vector<Phase>& phases, std::int64_t step) {
  std::int64_t sequences = 0;
  for (const auto& phase : phases)
    if (step > phase.first_step) sequences += (std::min(step, phase.end) - phase.first_step) * phase.global_batch;
  return sequences;
}

std::int64_t equivalent_steps_left(const std::vector<Phase>& phases, const Phase& now, std::int64_t steps_done) {
  double tokens = 0;
  for (const auto& phase : phases) {
    const auto steps = static_cast<double>(std::max<std::int64_t>(0, phase.end - std::max(steps_done, phase.first_step)));
    tokens += steps * phase.length * phase.global_batch;
  }
  return std::llround(tokens / (static_cast<double>(now.length) * now.global_batch));
}

std::vector<data::SamplingPhase> sampling(const std::vector<Phase>& phases) {
  std::vector<data::SamplingPhase> result;
  for (const auto& phase : phases) result.push_back({phase.first_step, phase.length, phase.global_batch, phase.weights});
  return result;
}

std::map<std::int64_t, train::LearningRate> learning_rates(const RunConfig& config, const std::vector<Phase>& phases,
                                                           const RunSchedule& schedule) {
  std::map<std::int64_t, train::LearningRate> rates;
  for (const auto& phase : phases)
    rates.emplace(phase.first_step, phase.own.learning_rate_schedule ? own_rate(config.training, phase, phase.own.steps)
                                                                     : learning_rate_of(config, schedule));
  return rates;
}

}  // namespace flotilla::session
