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
  const auto& longest = *std::ranges::max_element(corpus.sections(), {}, &CorpusSection::size);
  throw Error{ErrorKind::bad_input, text(longest.file->path().string(), ": tokens ", longest.first, " to ", longest.last, " are ",
                                         longest.size(), ", too few for one sequence; expected at least ", length + 1, " (length ", length,
                                         " and the last target); use a longer file or a shorter length",
                                         longest.first > 0 ? " or a larger validation fraction" : "")};
}

/// The only source of a run draws by the run's own seed; sources of a mixture, each by one of its own.
std::uint64_t seed_of(const Source& source, std::uint64_t seed) {
  return source.name.empty() ? seed : Philox::mix(seed ^ Philox::mix(fnv1a(source.name)));
}

/// The orders of all sources at one length, and how much of them has been drawn.
struct Cut {
  int length = 0;
  std::vector<SourceOrder> orders;  ///< by source
  std::vector<std::int64_t> drawn;  ///< likewise, up to the last change
};

/// Steps between two changes: of the phase, or of what a source has.
struct Stretch {
  std::int64_t first_step = 0, position = 0;  ///< the first sequence's
  std::size_t phase = 0, cut = 0;
  std::vector<std::int64_t> elsewhere;  ///< what each source had given by then at other lengths
};

/// Of a whole, in parts of 2^-40, rounded up.
constexpr int part_bits = 40;
std::int64_t used_part(std::int64_t drawn, std::int64_t of) {
  __extension__ using Wide = unsigned __int128;
  if (drawn == 0 || of == 0) return 0;
  return static_cast<std::int64_t>(((static_cast<Wide>(drawn) << part_bits) + static_cast<Wide>(of) - 1) / static_cast<Wide>(of));
}
std::int64_t unused_part(std::int64_t used, std::int64_t of) {
  __extension__ using Wide = unsigned __int128;
  const auto left = (std::int64_t{1} << part_bits) - used;
  return left <= 0 ? 0 : static_cast<std::int64_t>((static_cast<Wide>(of) * static_cast<Wide>(left)) >> part_bits);
}

std::vector<SamplingPhase> checked(std::vector<SamplingPhase> phases, const SamplerOptions& options) {
  if (phases.empty()) phases.push_back({0, options.length, options.global_batch, {}});
  FLOTILLA_ASSERT(phases.front().first_step == 0, "the first phase begins at step ", phases.front().first_step);
  for (const auto& phase : phases) check({options.seed, phase.length, phase.global_batch, options.vocabulary});
  return phases;
}

}  // namespace

struct Sampler::State {
  std::vector<Source> sources;
  std::vector<SamplingPhase> phases;
  std::vector<Cut> cuts;
  std::vector<Stretch> stretches;
  std::optional<Blend> blend;

  double weight(std::size_t phase, std::size_t source) const {
    const auto& weights = phases[phase].weights;
    return weights.empty() ? sources[source].weight : weights.at(source);
  }
  std::size_t cut_of(int length) const {
    const auto found = std::ranges::find(cuts, length == 0 ? phases.front().length : length, &Cut::length);
    FLOTILLA_ASSERT(found != cuts.end(), "no phase has sequences of ", length, " tokens");
    return static_cast<std::size_t>(found - cuts.begin());
  }
  const Stretch& at(std::int64_t step) const { return *std::prev(std::ranges::upper_bound(stretches, step, {}, &Stretch::first_step)); }
  std::int64_t position(std::int64_t step) const {
    const auto& stretch = at(step);
    return stretch.position + (step - stretch.first_step) * phases[stretch.phase].global_batch;
  }

  void add_cuts(const SamplerOptions& options) {
    for (std::size_t p = 0; p < phases.size(); ++p) {
      const int length = phases[p].length;
      if (!std::ranges::count(cuts, length, &Cut::length)) {
        cuts.push_back({length, {}, std::vector<std::int64_t>(sources.size())});
        for (const auto& source : sources) {
          const auto known = source.growth.empty() ? source.corpus.sections().size() : source.files_at_start;
          cuts.back().orders.emplace_back(source.corpus, known, length, seed_of(source, options.seed));
        }
      }
      const auto& orders = cuts[cut_of(length)].orders;
      for (std::size_t i = 0; i < sources.size(); ++i)
        if (weight(p, i) > 0 && orders[i].sequences() == 0) refuse_too_short(sources[i].corpus, length);
    }
  }

  /// What the source may have given in all, at the end of its epochs, if it goes on at this length.
  std::int64_t most(std::size_t source, const Stretch& stretch) const {
    if (sources[source].epochs == 0) return Blend::unlimited;
    std::int64_t used = 0;
    const auto draws = [&](const Cut& cut) { return cut.orders[source].draws(sources[source].epochs); };
    for (const auto& cut : cuts)
      if (&cut != &cuts[stretch.cut]) used += used_part(cut.drawn[source], draws(cut));
    return stretch.elsewhere[source] + (used == 0 ? draws(cuts[stretch.cut]) : unused_part(used, draws(cuts[stretch.cut])));
  }
  std::vector<Blend::Part> parts(const Stretch& stretch) const {
    std::vector<Blend::Part> parts;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto share = weight(stretch.phase, i);
      parts.push_back({share, share > 0 ? most(i, stretch) : 0});
    }
    return parts;
  }

  /// Steps at which a phase begins or some source grew, ascending.
  std::set<std::int64_t> changes() const {
    std::set<std::int64_t> steps;
    for (const auto& phase : phases) steps.insert(phase.first_step);
    for (const auto& source : sources)
      for (const auto& growth : source.growth) steps.insert(growth.step);
    return steps;
  }
  /// What has been drawn up to a step is counted at the length it was drawn at; then what is new at this step is there.
  void grow(std::int64_t step, const std::vector<std::int64_t>& counts) {
    if (!stretches.empty()) {
      const auto& before = stretches.back();
      for (std::size_t i = 0; i < sources.size(); ++i) cuts[before.cut].drawn[i] = counts[i] - before.elsewhere[i];
    }
    for (std::size_t i = 0; i < sources.size(); ++i)
      for (const auto& growth : sources[i].growth)
        if (growth.step == step)
          for (auto& cut : cuts) cut.orders[i].grow(cut.drawn[i], growth.files);
  }
  /// False where the data end before this step.
  bool change(std::int64_t step) {
    Stretch next{step, stretches.empty() ? 0 : position(step), 0, 0, {}};
    if (blend && next.position > blend->size()) return false;
    const auto counts = blend ? blend->counts(next.position) : std::vector<std::int64_t>(sources.size());
    grow(step, counts);
    next.phase = static_cast<std::size_t>(std::ranges::upper_bound(phases, step, {}, &SamplingPhase::first_step) - phases.begin()) - 1;
    next.cut = cut_of(phases[next.phase].length);
    for (std::size_t i = 0; i < sources.size(); ++i) next.elsewhere.push_back(counts[i] - cuts[next.cut].drawn[i]);
    if (blend)
      blend->change(next.position, parts(next));
    else
      blend.emplace(parts(next));
    stretches.push_back(std::move(next));
    return true;
  }
};

std::ostream& operator<<(std::ostream& out, const Location& location) {
  if (location.source > 0) out << "source " << location.source << ", ";
  return out << "epoch " << location.epoch << ", sequence " << location.sequence << ": token " << location.first << " of file "
             << location.section;
}

/// A token at a time, so that it is the same on any machine.
std::uint64_t digest_of(int index, std::span<const std::int32_t> tokens) {
  std::uint64_t digest = Philox::mix(static_cast<std::uint64_t>(index));
  for (const auto token : tokens) digest = Philox::mix(digest ^ static_cast<std::uint32_t>(token));
  return digest;
}

Sampler::Sampler(Corpus corpus, SamplerOptions options) : Sampler{std::vector<Source>{{.corpus = std::move(corpus)}}, options} {}

Sampler::Sampler(std::vector<Source> sources, SamplerOptions options, std::vector<SamplingPhase> phases) : options_{options} {
  FLOTILLA_ASSERT(!sources.empty(), "a sampler of nothing");
  State state{std::move(sources), checked(std::move(phases), options_), {}, {}, {}};
  state.add_cuts(options_);
  for (const auto step : state.changes())
    if (!state.change(step)) break;
  state_ = std::make_shared<const State>(std::move(state));
}

const std::vector<Source>& Sampler::sources() const { return state_->sources; }
const std::vector<SamplingPhase>& Sampler::phases() const { return state_->phases; }
std::int64_t Sampler::sequences_per_epoch(int source, int length) const {
  return state_->cuts[state_->cut_of(length)].orders.at(static_cast<std::size_t>(source)).sequences();
}
std::int64_t Sampler::steps() const {
  const auto& last = state_->stretches.back();
  return last.first_step + (state_->blend->size() - last.position) / state_->phases[last.phase].global_batch;
}
std::vector<std::int64_t> Sampler::drawn(std::int64_t steps) const { return state_->blend->counts(state_->position(steps)); }

Location Sampler::locate(std::int64_t step, int index) const {
  const auto& stretch = state_->at(step);
  const auto& phase = state_->phases[stretch.phase];
  FLOTILLA_ASSERT(step >= 0 && index >= 0 && index < phase.global_batch, "sequence ", index, " of step ", step);
  const auto draw = (*state_->blend)(state_->position(step) + index);
  const auto source = static_cast<std::size_t>(draw.source);
  auto location = state_->cuts[stretch.cut].orders[source].locate(draw.number - stretch.elsewhere[source]);
  location.source = draw.source;
  return location;
}

Location Sampler::locate_evaluation(std::int64_t index, int source, int length) const {
  auto location = state_->cuts[state_->cut_of(length)].orders.at(static_cast<std::size_t>(source)).locate_evaluation(index);
  location.source = source;
  return location;
}

void Sampler::read(const Location& location, std::span<std::int32_t> tokens) const {
  const auto& sections = state_->sources.at(static_cast<std::size_t>(location.source)).corpus.sections();
  const auto& file = *sections.at(static_cast<std::size_t>(location.section)).file;
  file.read(location.first, tokens, options_.vocabulary);
  if (file.mask() != nullptr) file.mask()->mark(location.first, tokens);
}

void Sampler::document_starts(const Location& location, std::span<std::int32_t> starts) const {
  const auto& sections = state_->sources.at(static_cast<std::size_t>(location.source)).corpus.sections();
  const auto& section = sections.at(static_cast<std::size_t>(location.section));
  section.file->document_starts(location.first, starts, options_.document_end);
}

std::string Sampler::unused() const {
  const int longest = std::ranges::max_element(state_->phases, {}, &SamplingPhase::length)->length;
  std::size_t count = 0, all = 0;
  const CorpusSection* first = nullptr;
  for (const auto& source : state_->sources)
    for (const auto& section : source.corpus.sections()) {
      ++all;
      if (section.size() > longest) continue;
      if (count++ == 0) first = &section;
    }
  if (count == 0) return {};
  return text(count, " of ", all, " files have fewer than ", longest + 1,
              " tokens (length + 1) and are not used, the first: ", first->file->path().string(), " (", first->size(), " tokens)");
}

}  // namespace flotilla::data
