#include "attention_reference.hpp"

namespace flotilla::compute::cuda {
namespace {

template <class E>
void launch(const AttentionOperands<E>& o, hostgpu::Order order) {
  const auto tiles = static_cast<unsigned>((o.length + attention_mma_rows - 1) / attention_mma_rows), heads = static_cast<unsigned>(o.heads),
             groups = static_cast<unsigned>(o.groups), sequences = static_cast<unsigned>(o.sequences);
  const int size = o.shape.places.size;
  const bool small = size <= small_head;
  const auto shared = [&](bool forward) { return static_cast<std::size_t>(attention_mma_shared(size, forward)); };
  hostgpu::run({tiles, heads, sequences}, {attention_threads}, shared(true), order, [&] {
    (small ? Kernels<E>::attention_mma_forward_64 : Kernels<E>::attention_mma_forward_128)(o.output, o.log_sum_exp, o.qkv, o.shape, o.drop);
  });
  hostgpu::run({tiles, heads, sequences}, {attention_threads}, shared(false), order, [&] {
    (small ? Kernels<E>::attention_mma_queries_64 : Kernels<E>::attention_mma_queries_128)(o.back, o.dots, o.qkv, o.output, o.gradient,
                                                                                           o.log_sum_exp, o.shape, o.drop);
  });
  hostgpu::run({tiles, groups, sequences}, {attention_threads}, shared(false), order, [&] {
    (small ? Kernels<E>::attention_mma_keys_64 : Kernels<E>::attention_mma_keys_128)(o.back, o.dots, o.qkv, o.gradient, o.log_sum_exp, o.shape,
                                                                                     o.drop);
  });
}

template <class E>
void all(hostgpu::Order order) {
  const auto check = [&](const AttentionCase& c) { check_attention<E>(c, "attention_mma", rounding<E>, order, launch<E>); };
  check({70, 2, 2, 16, 0, true});    // a tail tile, dropout, the smallest head
  check({133, 2, 1, 32, 40, false});  // shared keys, a window that ends inside tiles
  check({20, 1, 1, 64, 0, false});   // the largest head of the smaller kernels
  check({33, 1, 1, 112, 0, false});  // of the larger ones, the last columns idle
}

void run_checks(hostgpu::Order order) {
  if (architecture() >= 80) all<bfloat16>(order);
  if (architecture() >= 75) all<float16>(order);
}

Checks registered{"attention_mma", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
