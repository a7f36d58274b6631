#include "attention_reference.hpp"

namespace flotilla::compute::cuda {
namespace {

template <class E>
struct Kernel {
  using Operands = AttentionOperands<E>;
  static unsigned tiles(const Operands& o) { return static_cast<unsigned>((o.length + attention_mma_rows - 1) / attention_mma_rows); }
  static std::size_t shared(const Operands& o, bool forward) {
    return static_cast<std::size_t>(attention_mma_shared(o.shape.places.size, forward));
  }

  static void forward(const Operands& o, hostgpu::Order order) {
    const auto kernel = o.shape.places.size <= small_head ? Kernels<E>::attention_mma_forward_64 : Kernels<E>::attention_mma_forward_128;
    const auto heads = static_cast<unsigned>(o.heads), sequences = static_cast<unsigned>(o.sequences);
    hostgpu::run({tiles(o), heads, sequences}, {attention_threads}, shared(o, true), order,
                 [&] { kernel(o.output, o.log_sum_exp, o.qkv, o.kv, o.starts, o.shape, o.drop); });
  }

  static void backward(const Operands& o, hostgpu::Order order) {
    const bool small = o.shape.places.size <= small_head;
    const auto queries = small ? Kernels<E>::attention_mma_queries_64 : Kernels<E>::attention_mma_queries_128;
    const auto keys = small ? Kernels<E>::attention_mma_keys_64 : Kernels<E>::attention_mma_keys_128;
    const auto heads = static_cast<unsigned>(o.heads), groups = static_cast<unsigned>(o.groups),
               sequences = static_cast<unsigned>(o.sequences);
    hostgpu::run({tiles(o), heads, sequences}, {attention_threads}, shared(o, false), order,
                 [&] { queries(o.back, o.dots, o.qkv, o.output, o.gradient, o.log_sum_exp, o.starts, o.shape, o.drop); });
    hostgpu::run({tiles(o), groups, sequences}, {attention_threads}, shared(o, false), order,
                 [&] { keys(o.back, o.dots, o.qkv, o.gradient, o.log_sum_exp, o.starts, o.shape, o.drop); });
  }
};

template <class E>
void all(hostgpu::Order order) {
  const auto check = [&](const AttentionCase& c) { check_attention<E, Kernel<E>>(c, "attention_mma", rounding<E>, order); };
  check({70, 2, 2, 16, 0, true});                           // a tail tile, dropout, the smallest head
  check({133, 2, 1, 32, 40, false});                        // shared keys, a window that ends inside tiles
  check({90, 2, 1, 16, 0, false, 3});                       // slopes, the second of them none of a power of two's
  check({20, 1, 1, 64, 0, false});                          // the largest head of the smaller kernels
  check({33, 1, 1, 112, 0, false});                         // of the larger ones, the last columns idle
  check({150, 2, 1, 16, 0, false, 0, {1, 1, 62, 65, 21}});  // documents that end inside tiles and with them, shared keys
  check({140, 2, 2, 16, 40, true, 3, {5, 1, 134}});         // with everything else
}

void run_checks(hostgpu::Order order) {
  if (architecture() >= 80) all<bfloat16>(order);
  if (architecture() >= 75) all<float16>(order);
}

Checks registered{"attention_mma", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
