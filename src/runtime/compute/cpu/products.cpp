#include "products.hpp"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "flotilla/base/error.hpp"
#include "parallel.hpp"
#include "widened_product.hpp"

namespace flotilla::compute::cpu {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu{dnnl::engine::kind::cpu, 0};
  return cpu;
}

memory::data_type type_of(Precision p) { return p == Precision::fp32 ? memory::data_type::f32 : memory::data_type::bf16; }

dnnl::primitive_attr attributes(const ProductSpec& s) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  if (s.accumulate) post.append_sum(1.0f);
  if (s.scale != 1) post.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, s.scale, 0.0f);
  if (s.relu) post.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  attributes.set_post_ops(post);
  return attributes;
}

dnnl::matmul::primitive_desc describe(const ProductSpec& s, int threads) {
  const ThreadCount count{s.per_thread ? 1 : threads};
  const auto type = type_of(s.precision);
  const memory::desc a{{s.m, s.k}, type, memory::dims{s.a_row, s.a_column}}, b{{s.k, s.n}, type, memory::dims{s.b_row, s.b_column}};
  const memory::desc c{{s.m, s.n}, s.c_fp32 ? memory::data_type::f32 : type, memory::dims{s.c_row, 1}};
  const memory::desc bias{{1, s.n}, type, memory::dims{s.n, 1}};
  const auto operation = s.bias ? dnnl::matmul::desc{a, b, bias, c} : dnnl::matmul::desc{a, b, c};
  return {operation, attributes(s), engine()};
}

std::string shape_of(const ProductSpec& s) { return text(s.m, " x ", s.k, " by ", s.k, " x ", s.n, " in ", to_string(s.precision)); }

[[noreturn]] void fail(const ProductSpec& s, const dnnl::error& error) {
  throw Error{ErrorKind::internal,
              text("oneDNN cannot multiply ", shape_of(s), ": ", error.what(), " (status ", static_cast<int>(error.status), ")")};
}

bool is_reference(const dnnl::matmul::primitive_desc& d) { return std::string{d.impl_info_str()}.find("ref") != std::string::npos; }

dnnl::matmul::primitive_desc checked_description(const ProductSpec& s, int threads) {
  try {
    auto description = describe(s, threads);
    FLOTILLA_REQUIRE(!is_reference(description), ErrorKind::internal, "oneDNN has only its reference code ('", description.impl_info_str(),
                     "') for the GEMM of ", shape_of(s), " on this processor");
    return description;
  } catch (const dnnl::error& error) {
    fail(s, error);
  }
}

bool has_bf16() {
  try {
    return !is_reference(describe(linear_forward(Precision::bf16, 64, 64, 64), 1));
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return false;
    throw;
  }
}

std::int64_t size_of(const dnnl::matmul::primitive_desc& d) { return static_cast<std::int64_t>(d.scratchpad_desc().get_size()); }

/// A product as oneDNN runs it.
class LibraryProduct {
 public:
  LibraryProduct(const ProductSpec& s, int threads, int contexts) : spec_{s} {
    const auto description = checked_description(s, threads);
    const ThreadCount count{s.per_thread ? 1 : threads};
    primitive_ = dnnl::matmul{description};
    scratch_ = size_of(description);
    contexts_.resize(static_cast<std::size_t>(contexts));
    for (Context& c : contexts_) fill(c, description);
  }

  const ProductSpec& spec() const { return spec_; }
  std::int64_t scratch_bytes() const { return scratch_; }

  bool multiply(const ProductOperands& operands, std::byte* scratch, int context) noexcept {
    Context& c = contexts_[static_cast<std::size_t>(context)];
    const auto set = [](const memory& m, const void* p) {
      return dnnl_memory_set_data_handle(m.get(), const_cast<void*>(p)) == dnnl_success;
    };
    bool good = set(c.a, operands.a) && set(c.b, operands.b) && set(c.c, operands.c) && set(c.scratch, scratch);
    if (spec_.bias) good = good && set(c.bias, operands.bias);
    return good && dnnl_primitive_execute(primitive_.get(), c.stream.get(), spec_.bias ? 5 : 4, c.arguments.data()) == dnnl_success &&
           dnnl_stream_wait(c.stream.get()) == dnnl_success;
  }

 private:
  /// Memory objects are made once; a run only points them at its operands.
  struct Context {
    dnnl::stream stream{engine()};
    memory a, b, bias, c, scratch;
    std::array<dnnl_exec_arg_t, 5> arguments{};
  };

  static void fill(Context& c, const dnnl::matmul::primitive_desc& d) {
    c.a = memory{d.src_desc(), engine(), DNNL_MEMORY_NONE};
    c.b = memory{d.weights_desc(), engine(), DNNL_MEMORY_NONE};
    c.bias = memory{d.bias_desc(), engine(), DNNL_MEMORY_NONE};
    c.c = memory{d.dst_desc(), engine(), DNNL_MEMORY_NONE};
    c.scratch = memory{d.scratchpad_desc(), engine(), DNNL_MEMORY_NONE};
    c.arguments = {{{DNNL_ARG_SRC, c.a.get()},
                    {DNNL_ARG_WEIGHTS, c.b.get()},
                    {DNNL_ARG_DST, c.c.get()},
                    {DNNL_ARG_SCRATCHPAD, c.scratch.get()},
                    {DNNL_ARG_BIAS, c.bias.get()}}};
  }

  ProductSpec spec_;
  dnnl::matmul primitive_;
  std::int64_t scratch_ = 0;
  std::vector<Context> contexts_;
};

}  // namespace

bool multiplies(Precision p) {
  static const bool bf16 = has_bf16();
  return p == Precision::fp32 || (p == Precision::bf16 && bf16);
}

/// What oneDNN runs: one product, or those of blocks in fp32 with their copies in front of its scratchpad.
struct Product::State {
  std::optional<WidenedProduct> widened;
  std::vector<LibraryProduct> library;
  std::int64_t scratch = 0;
  int threads = 1;

  State(const ProductSpec& s, int thread_count, int contexts) : threads{s.per_thread ? 1 : thread_count} {
    if (!multiplies(s.precision)) widened.emplace(s);
    for (const ProductSpec& p : widened ? widened->products() : std::vector{s}) {
      const LibraryProduct& product = library.emplace_back(p, thread_count, contexts);
      scratch = std::max(scratch, copies() + product.scratch_bytes());
    }
  }

  std::int64_t copies() const { return widened ? widened->bytes() : 0; }
};

Product::Product(const ProductSpec& s, int threads, int contexts) {
  try {
    state_ = std::make_unique<State>(s, threads, contexts);
  } catch (const dnnl::error& error) {
    fail(s, error);
  }
}
Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;
Product::~Product() = default;

std::int64_t Product::scratch_bytes() const { return state_->scratch; }

bool Product::run(const ProductOperands& operands, std::byte* scratch, int context) noexcept {
  State& s = *state_;
  if (!s.widened) return s.library.front().multiply(operands, scratch, context);
  const auto multiply = [&](const ProductSpec& block, const ProductOperands& wide) {
    return std::ranges::find(s.library, block, &LibraryProduct::spec)->multiply(wide, scratch + s.copies(), context);
  };
  return s.widened->run(operands, scratch, s.threads, multiply);
}

std::int64_t scratch_bytes(const ProductSpec& s, int threads) {
  if (multiplies(s.precision)) return size_of(checked_description(s, threads));
  const WidenedProduct widened{s};
  std::int64_t most = 0;
  for (const ProductSpec& p : widened.products()) most = std::max(most, size_of(checked_description(p, threads)));
  return widened.bytes() + most;
}

std::string implementation(const ProductSpec& s, int threads) {
  if (multiplies(s.precision)) return checked_description(s, threads).impl_info_str();
  const auto block = checked_description(WidenedProduct{s}.products().front(), threads);
  return text(block.impl_info_str(), ", ", to_string(s.precision), " by fp32 products");
}

std::string library_version() {
  const dnnl_version_t* v = dnnl_version();
  return text("oneDNN ", v->major, '.', v->minor, '.', v->patch);
}

std::size_t Products::Hash::operator()(const ProductSpec& s) const noexcept {
  std::uint64_t h = 0;
  for (std::int64_t v : {s.m, s.n, s.k, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row})
    h = (h ^ static_cast<std::uint64_t>(v)) * 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(h ^ (h >> 32));
}

Product& Products::find(const ProductSpec& s) {
  const auto found = products_.find(s);
  if (found != products_.end()) return found->second;
  return products_.emplace(s, Product{s, threads_, s.per_thread ? threads_ : 1}).first->second;
}

void Products::run(const ProductSpec& s, const ProductOperands& operands) {
  Product& product = find(s);
  require_scratch(product.scratch_bytes());
  FLOTILLA_REQUIRE(product.run(operands, scratch_.data()), ErrorKind::internal, "oneDNN failed to multiply ", shape_of(s));
}

Product& Products::per_thread(const ProductSpec& s) { return find(s); }

std::byte* Products::thread_scratch(int thread, std::int64_t bytes) const {
  return scratch_.data() + thread * align_up(Bytes{bytes}, 64).count;
}

void Products::require_scratch(std::int64_t bytes) const {
  FLOTILLA_REQUIRE(bytes <= static_cast<std::int64_t>(scratch_.size()), ErrorKind::internal, "oneDNN needs a scratchpad of ", bytes,
                   " bytes, set_scratch() gave ", scratch_.size());
}

}  // namespace flotilla::compute::cpu
