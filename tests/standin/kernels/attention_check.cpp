#include "attention_reference.hpp"

namespace flotilla::compute::cuda {
namespace {

template <class E>
struct Kernel {
  using Operands = AttentionOperands<E>;
  static unsigned tiles(const Operands& o) { return static_cast<unsigned>((o.length + attention_tile - 1) / attention_tile); }
  static std::size_t shared(const Operands& o, bool forward) {
    return static_cast<std::size_t>(attention_shared(o.shape.places.size, static_cast<int>(sizeof(E)), forward));
  }

  /// Functions, or kernels of a device.
  template <class F>
  static const F& of_size(const Operands& o, const F& small, const F& middle, const F& large) {
    return o.shape.places.size <= small_head ? small : o.shape.places.size <= middle_head ? middle : large;
  }

  static void forward(const Operands& o, hostgpu::Order order) {
    using K = Kernels<E>;
    const auto kernel = of_size(o, K::attention_forward_64, K::attention_forward_128, K::attention_forward_256);
    const auto heads = static_cast<unsigned>(o.heads), sequences = static_cast<unsigned>(o.sequences);
    hostgpu::run({tiles(o), heads, sequences}, {attention_threads}, shared(o, true), order,
                 [&] { kernel(o.output, o.log_sum_exp, o.qkv, o.kv, o.starts, o.shape, o.drop); });
  }

  static void backward(const Operands& o, hostgpu::Order order) {
    using K = Kernels<E>;
    const auto queries = of_size(o, K::attention_queries_64, K::attention_queries_128, K::attention_queries_256);
    const auto keys = of_size(o, K::attention_keys_64, K::attention_keys_128, K::attention_keys_256);
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
  const auto check = [&](const AttentionCase& c) { check_attention<E, Kernel<E>>(c, "attention", 0, order); };
  check({37, 2, 2, 16, 0, true});                          // a tail tile, dropout
  check({70, 2, 1, 8, 20, false});                         // shared keys, a window that ends inside tiles
  check({40, 2, 2, 16, 0, false, 3});                      // slopes, the second of them none of a power of two's
  check({9, 1, 1, 80, 0, false});                          // four columns a lane, the last ones idle
  check({9, 2, 1, 152, 0, false});                         // eight columns a lane, the last three idle
  check({10, 2, 2, 5, 0, false});                          // nothing is a multiple of 16 bytes
  check({100, 2, 1, 8, 0, false, 0, {1, 1, 31, 34, 33}});  // documents that end inside tiles and with them, shared keys
  check({70, 2, 2, 16, 20, true, 3, {5, 1, 64}});          // with everything else
  check({70, 2, 1, 16, 20, true, 0, {}, 1.5f});            // scores that a cap bends, in a window
}

void run_checks(hostgpu::Order order) {
  all<float>(order);
  all<bfloat16>(order);
  all<float16>(order);
}

Checks registered{"attention", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
