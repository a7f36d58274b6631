#include "attention_reference.hpp"

namespace flotilla::compute::cuda {
namespace {

template <class E>
void launch(const AttentionOperands<E>& o, hostgpu::Order order) {
  const auto tiles = static_cast<unsigned>((o.length + attention_tile - 1) / attention_tile), heads = static_cast<unsigned>(o.heads),
             groups = static_cast<unsigned>(o.groups), sequences = static_cast<unsigned>(o.sequences);
  const int size = o.shape.places.size, element = static_cast<int>(sizeof(E));
  const bool small = size <= small_head;
  const auto shared = [&](bool forward) { return static_cast<std::size_t>(attention_shared(size, element, forward)); };
  hostgpu::run({tiles, heads, sequences}, {attention_threads}, shared(true), order, [&] {
    (small ? Kernels<E>::attention_forward_64 : Kernels<E>::attention_forward_128)(o.output, o.log_sum_exp, o.qkv, o.shape, o.drop);
  });
  hostgpu::run({tiles, heads, sequences}, {attention_threads}, shared(false), order, [&] {
    (small ? Kernels<E>::attention_queries_64 : Kernels<E>::attention_queries_128)(o.back, o.dots, o.qkv, o.output, o.gradient, o.log_sum_exp,
                                                                                   o.shape, o.drop);
  });
  hostgpu::run({tiles, groups, sequences}, {attention_threads}, shared(false), order, [&] {
    (small ? Kernels<E>::attention_keys_64 : Kernels<E>::attention_keys_128)(o.back, o.dots, o.qkv, o.gradient, o.log_sum_exp, o.shape, o.drop);
  });
}

template <class E>
void all(hostgpu::Order order) {
  const auto check = [&](const AttentionCase& c) { check_attention<E>(c, "attention", 0, order, launch<E>); };
  check({37, 2, 2, 16, 0, true});   // a tail tile, dropout
  check({70, 2, 1, 8, 20, false});  // shared keys, a window that ends inside tiles
  check({9, 1, 1, 80, 0, false});   // four columns a lane, the last ones idle
  check({10, 2, 2, 5, 0, false});   // nothing is a multiple of 16 bytes
}

void run_checks(hostgpu::Order order) {
  all<float>(order);
  all<bfloat16>(order);
  all<float16>(order);
}

Checks registered{"attention", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
