#include "operations.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/attention_blocks.hpp"
#include "cpu/dropout.hpp"
#include "cpu/embedding_scale.hpp"
#include "cpu/rotary.hpp"
#include "flotilla/model/adapters.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::compute::cuda {
namespace {

using model::Operation;

constexpr Seconds upload_limit{60};

std::int64_t widest(const Setup& s) {
  const model::LayerShape shape = layer_shape(s, 1);
  return std::max({std::int64_t{s.model.hidden}, model::qkv_width(s.model, shape), model::up_width(s.model, shape)});
}

/// Throws Error{unavailable} for heads that the kernels do not take; gpu::Module::kernel does where a device has less memory.
SharedMemory shared_memory(const Setup& s, int element) {
  const int size = s.model.head_size();
  FLOTILLA_REQUIRE(size <= largest_head, ErrorKind::unavailable, "attention heads of ", size, " are larger than the ", largest_head,
                   " that kernels for GPUs take: train on CPUs");
  const int by_tensor_cores = size <= middle_head ? size : 0;
  return {Bytes{std::int64_t{3} * s.model.hidden * 4}, Bytes{attention_shared(size, element, true)},
          Bytes{attention_shared(size, element, false)}, Bytes{attention_mma_shared(by_tensor_cores, true)},
          Bytes{attention_mma_shared(by_tensor_cores, false)}};
}

gpu::DeviceBuffer upload(const gpu::DeviceContext& device, gpu::Stream& stream, const std::vector<float>& values) {
  if (values.empty()) return {};
  const auto bytes = std::as_bytes(std::span{values});
  gpu::DeviceBuffer arena = device.make_buffer(Bytes{static_cast<std::int64_t>(bytes.size())});
  stream.copy_to_device(arena.data(), bytes);
  stream.wait(upload_limit);
  return arena;
}

}  // namespace

Bytes scratch_bytes(const Setup& s, int sequences) {
  const model::LayerShape shape = layer_shape(s, sequences);
  const std::int64_t n = shape.tokens(), heads = model::local_heads(s.model, shape), d = s.model.hidden;
  const std::int64_t rows = n * (3 * d + 2 * model::up_width(s.model, shape) + heads * s.model.head_size() +
                                 model::qkv_width(s.model, shape) + s.model.embedding_width);
  const std::int64_t sums = 4 * (2 * most_row_blocks * 3 * d + 2 * most_column_parts * widest(s)), dots = 4 * n * heads;
  const std::int64_t head_sums = s.model.query_key_norms ? 4 * 2 * most_row_blocks * s.model.head_size() : 0;
  constexpr std::int64_t alignments = 64 * 32;
  const Bytes adapters = std::max(model::adapter_workspace(s.model, shape, Operation::attention_backward),
                                  model::adapter_workspace(s.model, shape, Operation::mlp_backward));
  const Bytes workspace = std::max(product_workspace, cudnn_workspace(s, sequences));
  return Bytes{workspace_alignment} + workspace + align_up(element_size(s.precision) * rows, 64) +
         Bytes{sums + head_sums + dots + alignments} + adapters;
}

template <class E>
CudaOperations<E>::CudaOperations(const Setup& setup, const gpu::DeviceContext& device, std::span<const std::byte> image)
    : LayerDimensions{setup},
      device_{device},
      stream_{device.make_stream()},
      module_{device, image},
      kernels_{module_, shared_memory(setup, sizeof(E))},
      attention_{choose_attention(kernels_, device.facts(), setup.model.head_size(), setup.model.score_cap > 0)},
      products_{device, setup.device.tf32},
      angles_{upload(device, stream_, cpu::rotary_angles(setup.model, std::max(setup.length, setup.cache)))},
      window_angles_{upload(device, stream_, cpu::rotary_angles(setup.model, std::max(setup.length, setup.cache), true))},
      embedding_scale_{cpu::embedding_scale(setup)} {}

template <class E>
void CudaOperations<E>::set_scratch(std::span<std::byte> scratch) {
  const auto workspace = static_cast<std::size_t>(product_workspace.count);
  const auto past = reinterpret_cast<std::uintptr_t>(scratch.data()) % workspace_alignment;
  const std::size_t skipped = past == 0 ? 0 : workspace_alignment - past;
  FLOTILLA_REQUIRE(scratch.size() >= skipped + workspace, ErrorKind::internal, "a scratchpad of ", scratch.size(), " bytes is too small");
  scratch = scratch.subspan(skipped);
  products_.set_workspace(scratch.first(workspace));
  all_scratch_ = scratch;
  scratch_ = scratch.subspan(workspace);
}

template <class E>
void CudaOperations<E>::run(const Task& task) {
  dispatch(Frame{*this, task});
}

template <class E>
KernelDropout CudaOperations<E>::dropout(const Frame& f, DropSite site) const {
  const cpu::Dropout d = cpu::dropout(setup_, f.task, site);
  return {d.key0, d.key1, d.threshold, d.scale, d.on};
}

template <class E>
void CudaOperations<E>::copy_elements(const E* from, E* to, std::int64_t elements) {
  if (elements == 0 || from == to) return;
  stream_.copy_on_device({reinterpret_cast<std::byte*>(to)}, {reinterpret_cast<std::byte*>(const_cast<E*>(from))},
                         Bytes{elements * static_cast<std::int64_t>(sizeof(E))});
}

template <class E>
void CudaOperations<E>::rows_forward(const Frame& f, const RowsForward& r) {
  kernels_.rows_forward(stream_, {.blocks_x = f.rows, .threads = row_threads}, r.sum, r.y, r.stats, r.residual, r.partial, r.bias,
                        r.bias_stride, r.weight, r.norm_bias, static_cast<int>(d_), static_cast<float>(setup_.model.norm_epsilon), rms_,
                        norm_offset(), r.drop, f.place(), r.starts);
}

template <class E>
auto CudaOperations<E>::norm(const Frame& f, const E* x, E* y, const model::Segment& stats, Parameter weight, Parameter bias) const
    -> RowsForward {
  RowsForward r;
  r.residual = x;
  r.y = y;
  r.stats = f.template saved<float>(stats);
  r.weight = f.weight(weight);
  r.norm_bias = f.weight_if(!rms_, bias);
  return r;
}

template <class E>
void CudaOperations<E>::rows_backward(const Frame& f, const RowsBackward& r) {
  if (f.rows == 0 || !(r.norms || r.has_bias || r.drop.on)) return;
  const std::int64_t blocks = std::min<std::int64_t>(f.rows, most_row_blocks);
  const int norm_sums = !r.norms ? 0 : rms_ ? 1 : 2, sums = norm_sums + r.has_bias;
  float* partials = f.template take<float>(sums * blocks * d_);
  kernels_.rows_backward(stream_, {.blocks_x = blocks, .threads = row_threads, .shared = Bytes{sums * d_ * 4}}, r.out,
                         r.drop.on ? r.masked : nullptr, partials, r.gradient, r.added, r.x, r.norms ? f.weight(r.norm_weight) : nullptr,
                         r.residual, r.stats, static_cast<int>(f.rows), static_cast<int>(d_), rms_, norm_offset(), r.has_bias, r.drop,
                         f.place());
  if (sums == 0) return;
  std::array<float*, 3> to{};
  if (r.norms) to[0] = f.gradient(r.norm_weight);
  if (norm_sums == 2) to[1] = f.gradient(r.norm_bias);
  if (r.has_bias) to[static_cast<std::size_t>(norm_sums)] = f.gradient(r.bias);
  add_parts(to, sums, partials, static_cast<int>(blocks), d_);
}

/// A sum that nobody wants, of a frozen tensor, stays where its parts are: a thread writes where it alone has read.
template <class E>
void CudaOperations<E>::add_parts(std::array<float*, 3> to, int sums, float* partials, int parts, std::int64_t width) {
  for (int s = 0; s < sums; ++s)
    if (float*& one = to[static_cast<std::size_t>(s)]; one == nullptr) one = partials + std::int64_t{s} * parts * width;
  kernels_.add_column_sums(stream_,
                           {.blocks_x = (width + column_threads - 1) / column_threads, .blocks_y = sums, .threads = column_threads}, to[0],
                           to[1], to[2], partials, parts, static_cast<int>(width));
}

template <class E>
void CudaOperations<E>::add_bias_gradient(const Frame& f, const E* x, std::int64_t width, Parameter parameter) {
  const std::int64_t parts = std::min<std::int64_t>(f.n, most_column_parts), blocks = (width + column_threads - 1) / column_threads;
  float* partials = f.template take<float>(parts * width);
  kernels_.column_sums(stream_, {.blocks_x = blocks, .blocks_y = parts, .threads = column_threads}, partials, x, static_cast<int>(f.n),
                       static_cast<int>(width));
  add_parts({f.gradient(parameter)}, 1, partials, static_cast<int>(parts), width);
}

template <class E>
AttentionShape CudaOperations<E>::attention_shape(const Frame& f) const {
  AttentionShape s = attention_shape(cpu::attention_window(setup_, f.task.layer - 1));
  s.first_sequence = static_cast<int>(f.task.first_sequence);
  return s;
}

template <class E>
AttentionShape CudaOperations<E>::attention_shape(int window) const {
  const int size = setup_.model.head_size(), queries = setup_.model.queries_per_group();
  const int heads = static_cast<int>(heads_), groups = static_cast<int>(groups_), row = static_cast<int>(qkv_width_);
  AttentionShape s;
  s.places = setup_.model.grouped_qkv()
                 ? KernelHeadPlaces{size, heads, groups, queries, row, (queries + 2) * size, queries * size, (queries + 2) * size, size}
                 : KernelHeadPlaces{size, heads, groups, 1, row, size, heads * size, size, heads * size};
  s.length = setup_.length;
  s.window = window;
  s.scale = static_cast<float>(setup_.model.score_scale());
  s.cap = static_cast<float>(setup_.model.score_cap);
  s.slopes = setup_.model.alibi ? setup_.model.heads : 0;
  s.first_head = static_cast<int>(model::share(setup_.model.groups(), setup_.tensor_parallel, setup_.tensor_index).first * queries);
  s.key_row = row;
  s.key_rows = setup_.length;
  return s;
}

/// As cpu::Operations::head_norms.
template <class E>
HeadBands CudaOperations<E>::head_bands() const {
  const int size = setup_.model.head_size(), queries = setup_.model.queries_per_group(), row = static_cast<int>(qkv_width_);
  const int heads = static_cast<int>(heads_), groups = static_cast<int>(groups_);
  if (setup_.model.grouped_qkv()) return {row, (queries + 2) * size, groups, queries, 1, size, norm_offset()};
  return {row, row, 1, heads, groups, size, norm_offset()};
}

template <class E>
KernelHeadRows CudaOperations<E>::head_rows(const Frame& f) const {
  const model::UnitRange mine = model::share(setup_.model.vocabulary, setup_.tensor_parallel, setup_.tensor_index);
  return {static_cast<int>(vocabulary_),
          static_cast<int>(mine.first),
          setup_.length,
          static_cast<int>(f.n),
          setup_.tensor_parallel,
          head_pitch(f),
          static_cast<float>(setup_.model.logit_cap)};
}

#define FLOTILLA_INSTANTIATE(E)                                                                                                            \
  template void CudaOperations<E>::add_parts(std::array<float*, 3>, int, float*, int, std::int64_t);                                       \
  template CudaOperations<E>::CudaOperations(const Setup&, const gpu::DeviceContext&, std::span<const std::byte>);                         \
  template void CudaOperations<E>::run(const Task&);                                                                                       \
  template void CudaOperations<E>::set_scratch(std::span<std::byte>);                                                                      \
  template KernelDropout CudaOperations<E>::dropout(const Frame&, DropSite) const;                                                         \
  template void CudaOperations<E>::copy_elements(const E*, E*, std::int64_t);                                                              \
  template void CudaOperations<E>::rows_forward(const Frame&, const RowsForward&);                                                         \
  template CudaOperations<E>::RowsForward CudaOperations<E>::norm(const Frame&, const E*, E*, const model::Segment&, Parameter, Parameter) \
      const;                                                                                                                               \
  template void CudaOperations<E>::rows_backward(const Frame&, const RowsBackward&);                                                       \
  template void CudaOperations<E>::add_bias_gradient(const Frame&, const E*, std::int64_t, Parameter);                                     \
  template AttentionShape CudaOperations<E>::attention_shape(const Frame&) const;                                                          \
  template AttentionShape CudaOperations<E>::attention_shape(int) const;                                                                   \
  template KernelHeadRows CudaOperations<E>::head_rows(const Frame&) const;                                                                \
  template HeadBands CudaOperations<E>::head_bands() const;
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cuda
