#include "library_attention.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "attention_referee.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"

namespace flotilla::compute::cuda {
namespace {

constexpr Seconds proof_limit{120};
/// cuDNN's median over ours from which on it is called slower. Not 1: where both are about equal, noise says which.
constexpr double clearly_longer = 1.2;
constexpr int timed_runs = 5;

template <class E>
constexpr Precision precision_of = std::is_same_v<E, float16>    ? Precision::fp16
                                   : std::is_same_v<E, bfloat16> ? Precision::bf16
                                                                 : Precision::fp32;

/// Where several heads share keys, these stand beside them, group by group: a group is then the batch, and each sequence a run of its own.
/// Else a sequence is.
bool groups_are_batch(const KernelHeadPlaces& p) { return p.queries > 1; }

cudnn::AttentionProblem problem_of(const AttentionShape& s, int sequences, Precision precision, bool deterministic) {
  const KernelHeadPlaces& p = s.places;
  const std::int64_t sequence = std::int64_t{s.length} * p.row, width = std::int64_t{p.heads} * p.size;
  cudnn::AttentionProblem problem{.precision = precision, .length = s.length, .size = p.size, .window = s.window, .scale = s.scale};
  problem.deterministic = deterministic;
  if (groups_are_batch(p)) {
    problem.batch = p.groups;
    problem.heads = p.queries;
    problem.query = {p.query_group, p.size, p.row};
    problem.key = problem.value = {p.key_step, p.size, p.row};
    problem.output = {std::int64_t{p.queries} * p.size, p.size, width};
    problem.statistics_batch = std::int64_t{p.queries} * s.length;
  } else {
    problem.batch = sequences;
    problem.heads = problem.groups = p.heads;
    problem.query = {sequence, p.query_group, p.row};
    problem.key = problem.value = {sequence, p.key_step, p.row};
    problem.output = {s.length * width, p.size, width};
    problem.statistics_batch = std::int64_t{p.heads} * s.length;
  }
  return problem;
}

template <class E>
struct Places {
  std::int64_t rows, qkv, output, statistics;  ///< elements
  Places(const AttentionShape& s, int sequences)
      : rows{std::int64_t{sequences} * s.length},
        qkv{rows * s.places.row},
        output{rows * s.places.heads * s.places.size},
        statistics{rows * s.places.heads} {}
};

/// Cuts up memory.
struct Cutter {
  std::span<std::byte> left;
  template <class T>
  std::span<std::byte> take(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T),
               taken = static_cast<std::size_t>(align_up(Bytes{static_cast<std::int64_t>(bytes)}, 64).count);
    FLOTILLA_REQUIRE(taken <= left.size(), ErrorKind::unavailable, "there is no memory to prove it in");
    const auto piece = left.first(bytes);
    left = left.subspan(taken);
    return piece;
  }
};

template <class T>
T* as(std::span<std::byte> bytes) {
  return reinterpret_cast<T*>(bytes.data());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

template <class E>
LibraryAttention<E>::LibraryAttention(const gpu::DeviceContext& device, const gpu::Stream& stream, bool deterministic)
    : device_{device}, stream_{stream}, deterministic_{deterministic}, context_{device, stream} {}

template <class E>
auto LibraryAttention<E>::find(const AttentionShape& s, int sequences) -> Proved* {
  if (s.slopes > 0 || s.cached > 0 || s.key_row != s.places.row) return nullptr;
  const auto wanted = problem_of(s, sequences, precision_of<E>, deterministic_);
  const auto found = std::ranges::find_if(proved_, [&](const auto& proved) { return proved->problem == wanted; });
  return found == proved_.end() ? nullptr : found->get();
}

template <class E>
void LibraryAttention<E>::run(Proved& proved, const AttentionShape& s, int sequences, const AttentionBatch<E>& b, bool is_forward) {
  const KernelHeadPlaces& p = s.places;
  const Places<E> one{s, 1};
  const auto at = [](const auto* pointer, std::int64_t elements) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(pointer)>>;
    return pointer ? reinterpret_cast<std::byte*>(const_cast<T*>(pointer + elements)) : nullptr;
  };
  device_.make_current();
  for (int i = 0; i < (groups_are_batch(p) ? sequences : 1); ++i) {
    const std::int64_t qkv = i * one.qkv, output = i * one.output, statistics = i * one.statistics;
    cudnn::AttentionOperands o;
    o.query = at(b.qkv, qkv);
    o.key = at(b.qkv, qkv + p.first_key);
    o.value = at(b.qkv, qkv + p.first_key + p.value_offset);
    o.output = at(b.output, output);
    o.log_sum_exp = b.log_sum_exp + statistics;
    if (is_forward) {
      proved.plans.forward(context_, o, workspace_.data());
      continue;
    }
    o.output_gradient = at(b.output_gradient, output);
    o.query_gradient = at(b.qkv_gradient, qkv);
    o.key_gradient = at(b.qkv_gradient, qkv + p.first_key);
    o.value_gradient = at(b.qkv_gradient, qkv + p.first_key + p.value_offset);
    o.dots = b.dots + statistics;
    proved.plans.backward(context_, o, workspace_.data());
  }
}

template <class E>
bool LibraryAttention<E>::forward(const AttentionShape& s, int sequences, const AttentionBatch<E>& batch) {
  Proved* proved = find(s, sequences);
  if (proved) run(*proved, s, sequences, batch, true);
  return proved != nullptr;
}

template <class E>
bool LibraryAttention<E>::backward(const AttentionShape& s, int sequences, const AttentionBatch<E>& batch) {
  Proved* proved = find(s, sequences);
  if (proved) run(*proved, s, sequences, batch, false);
  return proved != nullptr;
}

template <class E>
Bytes LibraryAttention<E>::proof_memory(const AttentionShape& s, int sequences) {
  const Places<E> all{s, sequences};
  constexpr std::int64_t element = sizeof(E), alignments = 64 * 9;
  return Bytes{element * (2 * all.qkv + 3 * all.output) + 4 * 3 * all.statistics + alignments};
}

template <class E>
std::string LibraryAttention<E>::prove(const AttentionShape& s, int sequences, const AttentionKernelRuns<E>& ours,
                                       std::span<std::byte> memory, bool timed) {
  try {
    device_.make_current();
    const auto problem = problem_of(s, sequences, precision_of<E>, deterministic_);
    const gpu::DeviceFacts& facts = device_.facts();
    auto candidate = std::make_unique<Proved>(Proved{problem, cudnn::AttentionPlans{problem, {context_.handle(), {}}, facts.major == 10}});
    const Bytes needed = std::max(candidate->plans.forward_workspace(), candidate->plans.backward_workspace());
    FLOTILLA_REQUIRE(needed.count <= static_cast<std::int64_t>(workspace_.size()), ErrorKind::unavailable, "it wants ", needed,
                     " of workspace, and there are ", Bytes{static_cast<std::int64_t>(workspace_.size())});
    const Verdict verdict = judged(*candidate, s, sequences, ours, memory, timed);
    if (!verdict.against.empty()) return verdict.against;
    if (!verdict.slower.empty() && !deterministic_) return verdict.slower;
    if (!verdict.slower.empty())
      log::warning(cudnn::library_version(), "'s attention runs on GPU ", facts.ordinal, " (", facts.name, "), though ", verdict.slower,
                   "; --device.attention flotilla takes ours");
    proved_.push_back(std::move(candidate));
    return {};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    stream_.wait(proof_limit);  // a device in error throws here
    return error.what();
  }
}

/// Results of either are fetched from the same places, which hold NaN before.
template <class E>
auto LibraryAttention<E>::judged(Proved& proved, const AttentionShape& s, int sequences, const AttentionKernelRuns<E>& ours,
                                 std::span<std::byte> memory, bool timed) -> Verdict {
  const Places<E> all{s, sequences};
  Cutter cut{memory};
  const auto qkv = cut.take<E>(all.qkv), gradient = cut.take<E>(all.qkv), output_gradient = cut.take<E>(all.output);
  const std::array outputs{cut.take<E>(all.output), cut.take<E>(all.output)};
  const std::array statistics{cut.take<float>(all.statistics), cut.take<float>(all.statistics)};
  const auto dots = cut.take<float>(all.statistics);
  const KnownAttention<E> known = known_attention<E>(s, sequences);
  stream_.copy_to_device({qkv.data()}, std::as_bytes(std::span{known.qkv}));
  stream_.copy_to_device({output_gradient.data()}, std::as_bytes(std::span{known.output_gradient}));
  const auto batch = [&](std::size_t which) {
    return AttentionBatch<E>{as<E>(qkv),      as<E>(outputs[which]), as<float>(statistics[which]), as<E>(output_gradient),
                             as<E>(gradient), as<float>(dots)};
  };
  const auto fetch = [&](auto& to, std::span<std::byte> from) {
    stream_.copy_to_host(std::as_writable_bytes(std::span{to}), {from.data()});
  };
  const auto blank = [&](std::span<std::byte> bytes) {
    stream_.fill({bytes.data()}, Bytes{static_cast<std::int64_t>(bytes.size())}, 0xff);
  };
  // Backward passes of both read our output, so that they differ by their own rounding only.
  const auto results = [&](std::size_t which, const auto& forward, const auto& backward) {
    AttentionResults<E> r{std::vector<E>(static_cast<std::size_t>(all.output)), std::vector<E>(static_cast<std::size_t>(all.qkv)),
                          std::vector<float>(static_cast<std::size_t>(all.statistics))};
    for (const auto& bytes : {outputs[which], statistics[which], gradient, dots}) blank(bytes);
    forward(batch(which));
    backward(batch(0));
    fetch(r.output, outputs[which]);
    fetch(r.log_sum_exp, statistics[which]);
    fetch(r.qkv_gradient, gradient);
    stream_.wait(proof_limit);
    return r;
  };
  const auto forward = [&](const AttentionBatch<E>& b) { run(proved, s, sequences, b, true); };
  const auto backward = [&](const AttentionBatch<E>& b) { run(proved, s, sequences, b, false); };
  const auto of_ours = results(0, ours.forward, ours.backward), theirs = results(1, forward, backward);
  if (auto why = difference(s, sequences, of_ours, theirs); !why.empty()) return {why, {}};
  if (deterministic_) {
    const auto again = results(1, forward, backward);
    const auto same = [](const auto& a, const auto& b) { return std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0; };
    if (!same(again.output, theirs.output) || !same(again.qkv_gradient, theirs.qkv_gradient))
      return {"its results differ from run to run", {}};
  }
  if (!timed) return {};
  gpu::Event first = device_.make_event(true), last = device_.make_event(true);
  const auto time = [&](const auto& ahead, const auto& back) {
    stream_.record(first);
    ahead(batch(0));
    back(batch(0));
    stream_.record(last);
    last.wait(proof_limit);
    return gpu::Event::between(first, last).value;
  };
  std::vector<double> mine, its;
  for (int i = 0; i < timed_runs; ++i) mine.push_back(time(ours.forward, ours.backward)), its.push_back(time(forward, backward));
  if (median(its) <= clearly_longer * median(mine)) return {};
  return {{}, text("it takes ", Seconds{median(its)}, " where ours takes ", Seconds{median(mine)})};
}

template class LibraryAttention<float>;
template class LibraryAttention<bfloat16>;
template class LibraryAttention<float16>;

}  // namespace flotilla::compute::cuda
