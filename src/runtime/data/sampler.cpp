#include "flotilla/data/sampler.hpp"

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>

#include "blend.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/philox.hpp"
#include "source_order.hpp"

namespace flotilla::data {
namespace {

void check(const SamplerOptions& options) {
  FLOTILLA_REQUIRE(options.length >= 1, ErrorKind::bad_input, "sequence length ", options.length, "; expected at least 1");
  FLOTILLA_REQUIRE(options.global_batch >= 1, ErrorKind::bad_input, "global batch ", options.global_batch, "; expected at least 1");
  FLOTILLA_REQUIRE(options.vocabulary >= 1, ErrorKind::bad_input, "vocabulary ", options.vocabulary, "; expected at least 1");
}

[[noreturn]] void refuse_too_short(const Corpus& corpus, int length) {
  FLOTILLA_REQUIRE(!corpus.empty(), ErrorKind::bad_input, "no data to take sequences from; expected at least one file of ", length + 1,
                   " tokens");
  const auto& longest = *std::ranges::max_element(corpus.sections(), {}, &Section::size);
  throw Error{ErrorKind::bad_input, text(longest.file->path().string(), ": tokens ", longest.first, " to ", longest.last, " are ",
                                         longest.size(), ", too few for one sequence; expected at least ", length + 1, " (length ", length,
                                         " and the last target); use a longer file or a shorter length",
                                         longest.first > 0 ? " or a larger validation fraction" : "")};
}

/// The only source of a run draws by the run's own seed; sources of a mixture, each by one of its own.
std::uint64_t seed_of(const Source& source, std::uint64_t seed) {
  return source.name.empty() ? seed : Philox::mix(seed ^ Philox::mix(fnv1a(source.name)));
}

}  // namespace

struct Sampler::State {
  std::vector<Source> sources;
  std::vector<SourceOrder> orders;
  std::optional<Blend> blend;

  std::vector<Blend::Part> parts() const {
    std::vector<Blend::Part> parts;
    for (std::size_t i = 0; i < sources.size(); ++i)
      parts.push_back({sources[i].weight, sources[i].epochs > 0 ? orders[i].draws(sources[i].epochs) : Blend::unlimited});
    return parts;
  }
  /// Steps at which some source grew, ascending.
  std::set<std::int64_t> growth_steps() const {
    std::set<std::int64_t> steps;
    for (const auto& source : sources)
      for (const auto& growth : source.growth) steps.insert(growth.step);
    return steps;
  }
  void grow(std::int64_t step, std::int64_t position) {
    const auto counts = blend->counts(position);
    for (std::size_t i = 0; i < sources.size(); ++i)
      for (const auto& growth : sources[i].growth)
        if (growth.step == step) orders[i].grow(counts[i], growth.files);
    blend->change(position, parts());
  }
};

std::ostream& operator<<(std::ostream& out, const Location& location) {
  if (location.source > 0) out << "source " << location.source << ", ";
  return out << "epoch " << location.epoch << ", sequence " << location.sequence << ": token " << location.first << " of file "
             << location.section;
}

Sampler::Sampler(Corpus corpus, SamplerOptions options) : Sampler{std::vector<Source>{{.corpus = std::move(corpus)}}, options} {}

Sampler::Sampler(std::vector<Source> sources, SamplerOptions options) : options_{options} {
  check(options_);
  State state{std::move(sources), {}, {}};
  for (const auto& source : state.sources) {
    const auto known = source.growth.empty() ? source.corpus.sections().size() : source.files_at_start;
    state.orders.emplace_back(source.corpus, known, options_.length, seed_of(source, options_.seed));
    if (state.orders.back().sequences() == 0) refuse_too_short(source.corpus, options_.length);
  }
  FLOTILLA_ASSERT(!state.sources.empty(), "a sampler of nothing");
  state.blend.emplace(state.parts());
  for (const auto step : state.growth_steps()) state.grow(step, step * options_.global_batch);
  state_ = std::make_shared<const State>(std::move(state));
}

const std::vector<Source>& Sampler::sources() const { return state_->sources; }
std::int64_t Sampler::sequences_per_epoch(int source) const { return state_->orders.at(static_cast<std::size_t>(source)).sequences(); }
std::int64_t Sampler::steps() const { return state_->blend->size() / options_.global_batch; }
std::vector<std::int64_t> Sampler::drawn(std::int64_t steps) const { return state_->blend->counts(steps * options_.global_batch); }

Location Sampler::locate(std::int64_t step, int index) const {
  FLOTILLA_ASSERT(step >= 0 && index >= 0 && index < options_.global_batch, "sequence ", index, " of step ", step);
  const auto draw = (*state_->blend)(step * options_.global_batch + index);
  auto location = state_->orders[static_cast<std::size_t>(draw.source)].locate(draw.number);
  location.source = draw.source;
  return location;
}

Location Sampler::locate_evaluation(std::int64_t index, int source) const {
  auto location = state_->orders.at(static_cast<std::size_t>(source)).locate_evaluation(index);
  location.source = source;
  return location;
}

void Sampler::read(const Location& location, std::span<std::int32_t> tokens) const {
  FLOTILLA_ASSERT(tokens.size() == static_cast<std::size_t>(options_.length) + 1, "room for ", tokens.size(), " tokens, length ",
                  options_.length);
  const auto& sections = state_->sources.at(static_cast<std::size_t>(location.source)).corpus.sections();
  sections.at(static_cast<std::size_t>(location.section)).file->read(location.first, tokens, options_.vocabulary);
}

std::string Sampler::unused() const {
  std::size_t count = 0, all = 0;
  const Section* first = nullptr;
  for (const auto& source : state_->sources)
    for (const auto& section : source.corpus.sections()) {
      ++all;
      if (section.size() > options_.length) continue;
      if (count++ == 0) first = &section;
    }
  if (count == 0) return {};
  return text(count, " of ", all, " files have fewer than ", options_.length + 1,
              " tokens (length + 1) and are not used, the first: ", first->file->path().string(), " (", first->size(), " tokens)");
}

}  // namespace flotilla::data
