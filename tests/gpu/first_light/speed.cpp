#include "speed.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/library_attention.hpp"
#include "cuda/products.hpp"
#include "device.hpp"
#include "flotilla/compute/gpu_rates.hpp"
#include "signatures.hpp"

namespace flotilla::first_light {
namespace {

using namespace compute::cuda;
using compute::GpuRates;

/// A model's step on one device: GPT-2 124M, or what a stand-in has time for.
struct Sizes {
  int sequences = 16, length = 1024, width = 768, heads = 12, up = 3072, vocabulary = 50257, logits_pitch = 50272;
  std::int64_t parameters = 124'439'808;
  int rows() const { return sequences * length; }
  static Sizes tiny() { return {1, 64, 64, 1, 128, 257, 272, 4096}; }
};

constexpr int runs = 10;

/// Arrays on the device, filled with numbers of (-1, 1) where they hold some.
class Arrays {
 public:
  /// Many numbers repeat some, from the device.
  bfloat16* halves(std::int64_t n) {
    constexpr std::int64_t most = 1 << 22;
    auto* const at = raw<bfloat16>(n);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(std::min(n, most)));
    for (auto& v : values) v = static_cast<std::uint16_t>(0x3c00u + random_() % 0x380u + (random_() & 1) * 0x8000u);
    upload(at, values);
    for (std::int64_t have = std::ssize(values); have < n;) {
      const std::int64_t more = std::min(have, n - have);
      target().stream.copy_on_device({reinterpret_cast<std::byte*>(at + have)}, {reinterpret_cast<std::byte*>(at)}, Bytes{2 * more});
      have += more;
    }
    return at;
  }
  float* floats(std::int64_t n, float least = -1, float most = 1) {
    auto* const at = raw<float>(n);
    std::vector<float> values(static_cast<std::size_t>(n));
    std::uniform_real_distribution<float> distribution{least, most};
    for (auto& v : values) v = distribution(random_);
    return upload(at, values);
  }
  std::int32_t* tokens(std::int64_t n, int vocabulary) {
    auto* const at = raw<std::int32_t>(n);
    std::vector<std::int32_t> values(static_cast<std::size_t>(n));
    for (auto& v : values) v = static_cast<std::int32_t>(random_() % static_cast<unsigned>(vocabulary));
    return upload(at, values);
  }
  /// All bytes zero.
  template <class T>
  T* raw(std::int64_t n) {
    arenas_.push_back(target().device.make_buffer(Bytes{n * static_cast<std::int64_t>(sizeof(T))}));
    target().stream.fill(arenas_.back().data(), arenas_.back().size(), 0);
    return reinterpret_cast<T*>(arenas_.back().data().address);
  }

 private:
  template <class T, class Value>
  T* upload(T* at, const std::vector<Value>& values) {
    target().stream.copy_to_device({reinterpret_cast<std::byte*>(at)}, std::as_bytes(std::span{values}));
    target().stream.wait(limit);
    return at;
  }
  std::minstd_rand random_{1};
  std::vector<gpu::DeviceBuffer> arenas_;
};

/// What must be moved, or multiplied and added, at least.
struct Work {
  double bytes = 0, flops = 0;
};

Seconds best_of(const std::function<void()>& enqueue) {
  gpu::Event start = target().device.make_event(true), end = target().device.make_event(true);
  Seconds best{1e30};
  for (int run = 0; run < runs; ++run) {
    target().stream.record(start);
    enqueue();
    target().stream.record(end);
    end.wait(limit);
    best = std::min(best, gpu::Event::between(start, end));
  }
  return best;
}

class Report {
 public:
  Report(const GpuRates& rates, const Sizes& sizes) : rates_{rates}, sizes_{sizes} {}

  void add(const std::string& name, const Work& work, const std::function<void()>& enqueue) {
    const Seconds took = best_of(enqueue);
    const double by_bytes = work.bytes / std::max(rates_.memory.value, 1.0), by_flops = work.flops / std::max(rates_.bf16.value, 1.0);
    const double floor = std::max(by_bytes, by_flops);
    std::printf("{\"kernel\": \"%s\", \"bytes\": %.0f, \"flops\": %.0f, \"seconds\": %.9f, \"floor_seconds\": %.9f, \"share\": %.3f}\n",
                name.c_str(), work.bytes, work.flops, took.value, floor, floor / std::max(took.value, 1e-12));
  }
  /// A launch of a kernel of the build.
  template <class... Arguments>
  void kernel(const std::string& name, const Work& work, const gpu::LaunchShape& shape, Arguments... arguments) {
    kernel_as(name, name, work, shape, arguments...);
  }
  /// Under another title.
  template <class... Arguments>
  void kernel_as(const std::string& title, const std::string& name, const Work& work, const gpu::LaunchShape& shape,
                 Arguments... arguments) {
    add(title, work, [&] { target().kernel(name).launch(target().stream, shape, arguments...); });
  }
  const Sizes& sizes() const { return sizes_; }

 private:
  GpuRates rates_;
  Sizes sizes_;
};

gpu::LaunchShape elements(std::int64_t n, int of_thread) {
  const std::int64_t of_block = std::int64_t{element_threads} * of_thread;
  return {.blocks_x = (n + of_block - 1) / of_block, .threads = element_threads};
}

using Half = bfloat16;
using Halves = const bfloat16*;
using Floats = const float*;
constexpr const std::int32_t* one_document = nullptr;  ///< where documents begin: each sequence is one

void rows(Report& report) {
  const Sizes& s = report.sizes();
  const std::int64_t n = std::int64_t{s.rows()} * s.width;
  Arrays a;
  auto *x = a.halves(n), *residual = a.halves(n), *sum = a.raw<Half>(n), *y = a.raw<Half>(n), *bias = a.halves(s.width);
  auto* const stats = a.floats(2 * std::int64_t{s.rows()}, 0.5f, 1.0f);
  const KernelRowPlace place{s.length, 0, 0};
  report.kernel("rows_forward_bf16", {8.0 * static_cast<double>(n)}, {.blocks_x = s.rows(), .threads = row_threads}, sum, y, stats,
                Halves{residual}, Halves{x}, Halves{bias}, 0, Halves{bias}, Halves{bias}, s.width, 1e-5f, 0, 0.0f, KernelDropout{}, place,
                one_document);
  const int blocks = std::min(most_row_blocks, s.rows());
  auto* const partials = a.raw<float>(std::int64_t{3} * blocks * s.width);
  report.kernel("rows_backward_bf16", {8.0 * static_cast<double>(n)},
                {.blocks_x = blocks, .threads = row_threads, .shared = Bytes{std::int64_t{3} * s.width * 4}}, sum,
                static_cast<Half*>(nullptr), partials, Halves{x}, Halves{residual}, Halves{y}, Halves{bias}, Halves{nullptr}, Floats{stats},
                s.rows(), s.width, 0, 0.0f, 0, KernelDropout{}, place);
}

void elementwise(Report& report) {
  const Sizes& s = report.sizes();
  const std::int64_t n = std::int64_t{s.rows()} * s.up;
  const double size = static_cast<double>(n);
  Arrays a;
  auto *x = a.halves(n), *gradient = a.halves(n), *y = a.raw<Half>(n);
  report.kernel("activation_forward_bf16", {4 * size}, elements(n, 8), y, Halves{x}, n, PointwiseActivation::gelu_tanh);
  report.kernel("activation_backward_bf16", {6 * size}, elements(n, 8), y, Halves{gradient}, Halves{x}, n, PointwiseActivation::gelu_tanh);
  report.kernel("add_bf16", {6 * size}, elements(n, 8), y, Halves{x}, Halves{gradient}, n);
}

void optimizer(Report& report) {
  const std::int64_t n = report.sizes().parameters;
  const double size = static_cast<double>(n);
  Arrays a;
  auto *p = a.floats(n), *g = a.floats(n), *m = a.floats(n), *v = a.floats(n, 0, 1);
  auto* const weights = a.raw<Half>(n);
  const AdamWStep step{1e-4f, 0.9f, 0.95f, 1e-8f, 1e-5f, 1, 1};
  report.kernel("adamw_bf16", {30 * size}, elements(n, 4), p, weights, Floats{g}, m, v, n, step);
  report.kernel("convert_bf16", {6 * size}, elements(n, 8), weights, Floats{p}, n);
}

void head(Report& report) {
  const Sizes& s = report.sizes();
  const int rows = s.rows();
  const std::int64_t n = std::int64_t{rows} * s.vocabulary, pitch = 2 * s.logits_pitch;  // space for fp32
  Arrays a;
  auto* const logits = a.halves(rows * pitch);
  auto* const tokens = a.tokens(rows + s.sequences, s.vocabulary);
  auto* const stats = a.raw<float>(3 * std::int64_t{rows});
  const KernelHeadRows shape{s.vocabulary, 0, s.length, rows, 1, pitch};
  const gpu::LaunchShape grid{.blocks_x = rows, .threads = row_threads};
  report.kernel("head_stats_bf16", {2.0 * static_cast<double>(n)}, grid, stats, logits, static_cast<const std::int32_t*>(tokens), shape);
  report.kernel("head_gradient_bf16", {4.0 * static_cast<double>(n)}, grid, logits, Floats{stats}, static_cast<const std::int32_t*>(tokens),
                shape, 1e-4f);
}

AttentionShape attention_shape(const Sizes& s) {
  const int size = s.width / s.heads, row = 3 * s.width;
  const KernelHeadPlaces places{size, s.heads, s.heads, 1, row, size, s.width, size, s.width};
  return {.places = places, .length = s.length, .scale = 0.125f, .key_row = row, .key_rows = s.length};
}

void attention(Report& report) {
  const Sizes& s = report.sizes();
  const int size = s.width / s.heads, row = 3 * s.width;
  const std::int64_t rows = s.rows();
  Arrays a;
  auto *qkv = a.halves(rows * row), *out = a.halves(rows * s.width), *gradient = a.halves(rows * s.width), *back = a.raw<Half>(rows * row);
  auto *lse = a.raw<float>(rows * s.heads), *dots = a.raw<float>(rows * s.heads);
  const AttentionShape shape = attention_shape(s);
  const auto grid = [&](int rows, int shared) {
    return gpu::LaunchShape{(s.length + rows - 1) / rows, s.heads, s.sequences, attention_threads, Bytes{shared}};
  };
  // Half of the scores are masked; two products forward, seven back.
  const double product = 2.0 * s.sequences * s.heads * s.length * s.length * size / 2, bytes = 2.0 * static_cast<double>(rows) * s.width;
  const auto run = [&](const std::string& kind, const std::string& title, const gpu::LaunchShape& forward, const gpu::LaunchShape& backward,
                       const KernelDropout& dropout) {
    report.kernel_as(kind + "_forward_64_bf16" + title, kind + "_forward_64_bf16", {4 * bytes, 2 * product}, forward, out, lse, Halves{qkv},
                     Halves{qkv}, one_document, shape, dropout);
    report.kernel_as(kind + "_queries_64_bf16" + title, kind + "_queries_64_bf16", {6 * bytes, 3 * product}, backward, back, dots,
                     Halves{qkv}, Halves{out}, Halves{gradient}, Floats{lse}, one_document, shape, dropout);
    report.kernel_as(kind + "_keys_64_bf16" + title, kind + "_keys_64_bf16", {6 * bytes, 4 * product}, backward, back, Floats{dots},
                     Halves{qkv}, Halves{gradient}, Floats{lse}, one_document, shape, dropout);
  };
  run("attention", "", grid(attention_tile, attention_shared(size, 2, true)), grid(attention_tile, attention_shared(size, 2, false)), {});
  if (target().device.facts().major < 8) return;
  const gpu::LaunchShape forward = grid(attention_mma_rows, attention_mma_shared(size, true)),
                         backward = grid(attention_mma_rows, attention_mma_shared(size, false));
  constexpr std::uint32_t tenth = 0x1999999au;
  run("attention_mma", "", forward, backward, {});
  run("attention_mma", "_with_dropout", forward, backward, {1, 2, tenth, 1 / 0.9f, 1});
}

/// cuDNN's attention, held against our kernels on this device as a trainer does it.
class CudnnAttention {
 public:
  explicit CudnnAttention(const Sizes& s) : sizes_{s}, shape_{attention_shape(s)} {
    try {
      result_ = cudnn::library_version();
      library_ = std::make_unique<LibraryAttention<Half>>(target().device, target().stream, true);
      const std::int64_t workspace =
          std::int64_t{4} * s.sequences * s.heads * s.length * s.length + (1 << 20);  // twice the gradients of scores
      library_->set_workspace({a_.raw<std::byte>(workspace), static_cast<std::size_t>(workspace)});
      const Bytes memory = LibraryAttention<Half>::proof_memory(shape_, s.sequences);
      const std::span proof{a_.raw<std::byte>(memory.count), static_cast<std::size_t>(memory.count)};
      const auto why = library_->prove(shape_, s.sequences, ours(), proof, false);
      if (why.empty()) return;
      result_ += ": " + why;
    } catch (const Error& error) {
      result_ = error.what();
    }
    library_.reset();
  }

  /// "cuDNN 9.19.0", and why it is not used.
  const std::string& result() const { return result_; }
  void measure(Report& report) {
    if (!library_) return;
    const Sizes& s = sizes_;
    const std::int64_t rows = s.rows(), row = shape_.places.row;
    const AttentionBatch<Half> batch{a_.halves(rows * row),     a_.halves(rows * s.width), a_.floats(rows * s.heads, 6, 7),
                                     a_.halves(rows * s.width), a_.raw<Half>(rows * row),  a_.raw<float>(rows * s.heads)};
    const double product = 2.0 * s.sequences * s.heads * s.length * s.length * shape_.places.size / 2,
                 bytes = 2.0 * static_cast<double>(rows) * s.width;
    report.add("cudnn_attention_forward_bf16", {4 * bytes, 2 * product}, [&] { library_->forward(shape_, s.sequences, batch); });
    report.add("cudnn_attention_backward_bf16", {8 * bytes, 5 * product}, [&] { library_->backward(shape_, s.sequences, batch); });
  }

 private:
  AttentionKernelRuns<Half> ours() {
    const Sizes s = sizes_;
    const AttentionShape shape = shape_;
    const auto grid = [s, size = shape.places.size](bool forward) {
      return gpu::LaunchShape{(s.length + attention_tile - 1) / attention_tile, s.heads, s.sequences, attention_threads,
                              Bytes{attention_shared(size, 2, forward)}};
    };
    const auto launch = [](const std::string& name, const gpu::LaunchShape& g, auto... arguments) {
      target().kernel(name).launch(target().stream, g, arguments...);
    };
    return {[=](const AttentionBatch<Half>& b) {
              launch("attention_forward_64_bf16", grid(true), b.output, b.log_sum_exp, b.qkv, b.qkv, one_document, shape, KernelDropout{});
            },
            [=](const AttentionBatch<Half>& b) {
              launch("attention_queries_64_bf16", grid(false), b.qkv_gradient, b.dots, b.qkv, Halves{b.output}, b.output_gradient,
                     Floats{b.log_sum_exp}, one_document, shape, KernelDropout{});
              launch("attention_keys_64_bf16", grid(false), b.qkv_gradient, Floats{b.dots}, b.qkv, b.output_gradient, Floats{b.log_sum_exp},
                     one_document, shape, KernelDropout{});
            }};
  }

  Sizes sizes_;
  AttentionShape shape_;
  Arrays a_;
  std::unique_ptr<LibraryAttention<Half>> library_;
  std::string result_;
};

void products(Report& report) {
  const Sizes& s = report.sizes();
  const gpu::DeviceBuffer workspace = target().device.make_buffer(product_workspace);
  CublasProducts library{target().device, false};
  library.set_workspace({workspace.data().address, static_cast<std::size_t>(workspace.size().count)});
  const std::int64_t rows = s.rows();
  const auto measure = [&](const std::string& name, const compute::ProductSpec& spec, std::int64_t of_a, std::int64_t of_b,
                           std::int64_t of_c) {
    Arrays a;
    const auto *x = a.halves(of_a), *w = a.halves(of_b);
    auto* const y = a.raw<std::byte>((spec.c_fp32 ? 4 : 2) * of_c);
    const double m = static_cast<double>(spec.m), n = static_cast<double>(spec.n), k = static_cast<double>(spec.k);
    report.add("product_" + name + "_bf16", {2 * (m * k + n * k) + (spec.c_fp32 ? 8 : 2) * m * n, 2 * m * n * k}, [&] {
      library.run(spec, {x, w, nullptr, y}, target().stream);
    });
  };
  struct Linear {
    const char* name;
    std::int64_t out, in;
  };
  for (const Linear& p : {Linear{"qkv", 3 * s.width, s.width}, Linear{"projection", s.width, s.width}, Linear{"up", s.up, s.width},
                          Linear{"down", s.width, s.up}}) {
    measure(p.name, compute::linear_forward(Precision::bf16, rows, p.out, p.in), rows * p.in, p.out * p.in, rows * p.out);
    measure(text(p.name, "_input"), compute::linear_input_gradient(Precision::bf16, rows, p.out, p.in), rows * p.out, p.out * p.in,
            rows * p.in);
    measure(text(p.name, "_weights"), compute::linear_weight_gradient(Precision::bf16, rows, p.out, p.in), rows * p.out, rows * p.in,
            p.out * p.in);
  }
  // Of the head: as many tokens as there are, and a multiple of 16 of them.
  const std::int64_t pitch = 2 * s.logits_pitch;
  for (const std::int64_t tokens : {std::int64_t{s.vocabulary}, std::int64_t{s.vocabulary} / 16 * 16}) {
    const std::string name = tokens == s.vocabulary ? "head" : "even_head";
    auto forward = compute::linear_forward(Precision::bf16, rows, tokens, s.width);
    auto input = compute::linear_input_gradient(Precision::bf16, rows, tokens, s.width);
    auto weights = compute::linear_weight_gradient(Precision::bf16, rows, tokens, s.width);
    forward.c_row = input.a_row = weights.a_column = pitch;
    measure(name, forward, rows * s.width, s.vocabulary * s.width, rows * pitch);
    measure(name + "_input", input, rows * pitch, s.vocabulary * s.width, rows * s.width);
    measure(name + "_weights", weights, rows * pitch, rows * s.width, s.vocabulary * s.width);
  }
}

}  // namespace

void measure_speed(bool tiny) {
  const GpuRates rates = compute::measure_rates(target().device, false, Seconds{tiny ? 0.05 : 20.0});
  Report report{rates, tiny ? Sizes::tiny() : Sizes{}};
  CudnnAttention cudnn{report.sizes()};
  std::printf(
      "{\"kernel\": \"rates\", \"to_device\": %.4g, \"to_host\": %.4g, \"memory\": %.4g, \"fp32\": %.4g, \"bf16\": %.4g, \"library\": "
      "\"%s\", "
      "\"attention\": \"%s\"}\n",
      rates.to_device.value, rates.to_host.value, rates.memory.value, rates.fp32.value, rates.bf16.value, rates.library.c_str(),
      cudnn.result().c_str());
  rows(report);
  elementwise(report);
  optimizer(report);
  head(report);
  attention(report);
  cudnn.measure(report);
  if (rates.bf16.value > 0) products(report);
}

}  // namespace flotilla::first_light
