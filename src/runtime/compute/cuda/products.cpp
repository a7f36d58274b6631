#include "products.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>

#include "blas_api.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::compute::cuda {
namespace blas {
namespace {

CublasFunctions load() {
  void* library = nullptr;
  const auto files = library_files(gpu::presence());
  for (const std::string& file : files)
    if (!library) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  FLOTILLA_REQUIRE(library, ErrorKind::unavailable, "cuBLASLt is not here (", dlerror(), "): put ", files.front(),
                   files.size() > 1 ? text(" or ", files.back()) : "", " of the CUDA toolkit on LD_LIBRARY_PATH");
  CublasFunctions table;
#define FLOTILLA_RESOLVE(name, result, ...)                                      \
  table.name = reinterpret_cast<result (*)(__VA_ARGS__)>(dlsym(library, #name)); \
  FLOTILLA_REQUIRE(table.name, ErrorKind::unavailable, "the cuBLASLt here lacks " #name ": install one of CUDA 12 or 13");
  FLOTILLA_BLAS_FUNCTIONS(FLOTILLA_RESOLVE)
#undef FLOTILLA_RESOLVE
  return table;
}

}  // namespace
}  // namespace blas

namespace {

const blas::CublasFunctions& api() {
  static const blas::CublasFunctions table = blas::load();
  return table;
}

void check(blas::Status status, const char* call, const ProductSpec& s) {
  FLOTILLA_REQUIRE(status == blas::success, ErrorKind::unavailable, call, " failed with status ", status, " for a product of ", s.m, " x ",
                   s.k, " by ", s.k, " x ", s.n,
                   status == blas::not_supported ? ": this cuBLASLt has no algorithm for it on this device" : "");
}

int type_of(Precision precision) {
  switch (precision) {
    case Precision::fp32: return blas::type_fp32;
    case Precision::bf16: return blas::type_bf16;
    case Precision::fp16: break;
  }
  return blas::type_fp16;
}

/// A row-major matrix as cuBLASLt's column-major one: its transpose, or itself where columns and not rows are contiguous.
struct ColumnMajor {
  int operation;
  std::uint64_t rows, columns;
  std::int64_t pitch;
};
ColumnMajor transposed(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  const auto r = static_cast<std::uint64_t>(rows), c = static_cast<std::uint64_t>(columns);
  if (column == 1) return {blas::no_transpose, c, r, rows == 1 ? columns : row};  // of one row the stride may be anything
  FLOTILLA_ASSERT(row == 1, "a matrix of strides ", row, " and ", column);
  return {blas::transpose, r, c, column};
}

/// Largest power of two, of at most what the library takes for granted, that divides an address.
std::uint32_t alignment_of(const void* address) {
  constexpr std::uintptr_t granted = 256;
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | granted;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

const void* at_element(const void* from, std::int64_t element, Bytes size) {
  return from == nullptr ? nullptr : static_cast<const std::byte*>(from) + element * size.count;
}

/// `count` of the columns of c from `first` on.
ProductCall columns_of(const ProductCall& p, std::int64_t first, std::int64_t count) {
  ProductCall part = p;
  const Bytes size = element_size(p.spec.precision), of_c = p.spec.c_fp32 ? element_size(Precision::fp32) : size;
  part.spec.n = count;
  part.operands.b = at_element(p.operands.b, first * p.spec.b_column, size);
  part.operands.bias = at_element(p.operands.bias, first, size);
  part.operands.c = const_cast<void*>(at_element(p.operands.c, first, of_c));
  return part;
}

/// `count` of the rows of c from `first` on.
ProductCall rows_of(const ProductCall& p, std::int64_t first, std::int64_t count) {
  ProductCall part = p;
  const Bytes size = element_size(p.spec.precision), of_c = p.spec.c_fp32 ? element_size(Precision::fp32) : size;
  part.spec.m = count;
  part.operands.a = at_element(p.operands.a, first * p.spec.a_row, size);
  part.operands.c = const_cast<void*>(at_element(p.operands.c, first * p.spec.c_row, of_c));
  return part;
}

/// `count` of the summands of each element of c from `first` on.
ProductCall summands_of(const ProductCall& p, std::int64_t first, std::int64_t count) {
  ProductCall part = p;
  const Bytes size = element_size(p.spec.precision);
  part.spec.k = count;
  part.operands.a = at_element(p.operands.a, first * p.spec.a_column, size);
  part.operands.b = at_element(p.operands.b, first * p.spec.b_row, size);
  return part;
}

/// Of b, a and c: cuBLASLt's A, B and both of its C and D.
using Alignments = std::array<std::uint32_t, 3>;

}  // namespace

std::optional<SplitProduct> split_product(const ProductSpec& s, const ProductOperands& o) {
  constexpr std::int64_t elements = 8, least = 1024;
  const auto odd = [](std::int64_t size) { return size >= least && size % elements != 0; };
  const std::int64_t pitch_a = std::max(s.a_row, s.a_column), pitch_b = std::max(s.b_row, s.b_column);
  if (s.precision == Precision::fp32 || pitch_a % elements != 0 || pitch_b % elements != 0 || s.c_row % elements != 0) return {};
  const ProductCall whole{s, o};
  const auto even_part = [](std::int64_t size) { return size / elements * elements; };
  if (const std::int64_t even = even_part(s.n); odd(s.n))
    return SplitProduct{columns_of(whole, even, s.n - even), columns_of(whole, 0, even)};
  if (const std::int64_t even = even_part(s.m); odd(s.m) && s.a_row == 1)
    return SplitProduct{rows_of(whole, even, s.m - even), rows_of(whole, 0, even)};
  if (!odd(s.k) || (s.a_column != 1 && s.b_row != 1) || s.scale != 1) return {};
  const std::int64_t even = even_part(s.k);
  SplitProduct parts{summands_of(whole, even, s.k - even), summands_of(whole, 0, even)};
  parts.rest.spec.bias = parts.rest.spec.relu = false;
  parts.main.spec.accumulate = true;
  return parts;
}

void require_library() { static_cast<void>(api()); }

struct CublasProducts::State {
  blas::Handle handle = nullptr;
  ~State() {
    if (handle) api().cublasLtDestroy(handle);
  }
};

/// c^T = b^T a^T.
struct CublasProducts::Plan {
  ProductSpec spec;
  Alignments alignments;
  blas::Description description = nullptr;
  blas::Layout a = nullptr, b = nullptr, c = nullptr;
  blas::Heuristic chosen{};

  Plan(const ProductSpec& s, const Alignments& of_operands, bool tf32, blas::Handle handle) : spec{s}, alignments{of_operands} {
    const int type = type_of(s.precision), compute = tf32 && s.precision == Precision::fp32 ? blas::compute_tf32 : blas::compute_fp32;
    check(api().cublasLtMatmulDescCreate(&description, compute, blas::type_fp32), "cublasLtMatmulDescCreate", s);
    const ColumnMajor left = transposed(s.k, s.n, s.b_row, s.b_column), right = transposed(s.m, s.k, s.a_row, s.a_column);
    set(blas::transpose_a, left.operation);
    set(blas::transpose_b, right.operation);
    // BIAS adds to the epilogue that is there, as RELU_BIAS = RELU + BIAS; none is 1.
    const int epilogue = (s.relu ? blas::epilogue_relu : 0) + (s.bias ? blas::epilogue_bias : 0);
    if (epilogue != 0) set(blas::epilogue, epilogue);
    a = layout(type, left);
    b = layout(type, right);
    c = layout(s.c_fp32 ? blas::type_fp32 : type, {0, static_cast<std::uint64_t>(s.n), static_cast<std::uint64_t>(s.m), s.c_row});
    choose(handle);
  }
  ~Plan() {
    for (blas::Layout each : {a, b, c})
      if (each) api().cublasLtMatrixLayoutDestroy(each);
    if (description) api().cublasLtMatmulDescDestroy(description);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <class Value>
  void set(int attribute, const Value& value) {
    check(api().cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute", spec);
  }
  blas::Layout layout(int type, const ColumnMajor& m) const {
    blas::Layout made = nullptr;
    check(api().cublasLtMatrixLayoutCreate(&made, type, m.rows, m.columns, m.pitch), "cublasLtMatrixLayoutCreate", spec);
    return made;
  }
  /// The first answer, without sums whose order is left to chance: the same library, device and shape give the same bits.
  void choose(blas::Handle handle) {
    blas::Preference preference = nullptr;
    check(api().cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate", spec);
    const auto most = static_cast<std::size_t>(product_workspace.count);
    api().cublasLtMatmulPreferenceSetAttribute(preference, blas::most_workspace, &most, sizeof most);
    api().cublasLtMatmulPreferenceSetAttribute(preference, blas::reduction_schemes, &blas::ordered_reductions,
                                               sizeof blas::ordered_reductions);
    const auto [of_a, of_b, of_c] = alignments;
    const auto set_alignment = [&](int operand, std::uint32_t alignment) {
      api().cublasLtMatmulPreferenceSetAttribute(preference, operand, &alignment, sizeof alignment);
    };
    set_alignment(blas::alignment_a, of_a), set_alignment(blas::alignment_b, of_b);
    set_alignment(blas::alignment_c, of_c), set_alignment(blas::alignment_d, of_c);
    int found = 0;
    const blas::Status status = api().cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, c, c, preference, 1, &chosen, &found);
    api().cublasLtMatmulPreferenceDestroy(preference);
    check(status, "cublasLtMatmulAlgoGetHeuristic", spec);
    check(found > 0 ? chosen.state : blas::not_supported, "cublasLtMatmulAlgoGetHeuristic", spec);
  }
};

CublasProducts::CublasProducts(gpu::DeviceContext device, bool tf32)
    : device_{std::move(device)}, tf32_{tf32}, state_{std::make_unique<State>()} {
  const blas::Status status = api().cublasLtCreate(&state_->handle);
  FLOTILLA_REQUIRE(status == blas::success, ErrorKind::unavailable, "cublasLtCreate failed with status ", status, " on GPU ",
                   device_.facts().ordinal, ": its version and the driver's must fit (flotilla --version)");
}
CublasProducts::~CublasProducts() = default;

void CublasProducts::set_workspace(std::span<std::byte> workspace) {
  FLOTILLA_REQUIRE(alignment_of(workspace.data()) >= workspace_alignment, ErrorKind::internal, "a workspace of products at ",
                   static_cast<const void*>(workspace.data()));
  workspace_ = workspace;
}

CublasProducts::Plan& CublasProducts::find(const ProductSpec& spec, const ProductOperands& o) {
  const Alignments alignments{alignment_of(o.b), alignment_of(o.a), alignment_of(o.c)};
  for (const auto& plan : plans_)
    if (plan->spec == spec && plan->alignments == alignments) return *plan;
  return *plans_.emplace_back(std::make_unique<Plan>(spec, alignments, tf32_, state_->handle));
}

void CublasProducts::run(const ProductSpec& spec, const ProductOperands& o, gpu::Stream& stream) {
  const auto parts = split_product(spec, o);
  if (!parts) return run_whole(spec, o, stream);
  run(parts->rest.spec, parts->rest.operands, stream);
  run(parts->main.spec, parts->main.operands, stream);
}

void CublasProducts::run_whole(const ProductSpec& spec, const ProductOperands& o, gpu::Stream& stream) {
  Plan& plan = find(spec, o);
  FLOTILLA_REQUIRE(plan.chosen.workspace <= workspace_.size(), ErrorKind::internal, "a product needs ", plan.chosen.workspace,
                   " bytes of workspace and has ", workspace_.size());
  if (spec.bias) plan.set(blas::bias, o.bias);
  const float scale = spec.scale, kept = spec.accumulate ? spec.scale : 0;
  check(api().cublasLtMatmul(state_->handle, plan.description, &scale, o.b, plan.a, o.a, plan.b, &kept, o.c, plan.c, o.c, plan.c,
                             &plan.chosen.algorithm, workspace_.data(), workspace_.size(), stream.native()),
        "cublasLtMatmul", spec);
}

std::vector<std::string> library_files(const gpu::Presence& here) {
  const auto old = [](const gpu::DeviceFacts& device) { return 10 * device.major + device.minor < 75; };
  if (here.driver_version < 13000 || std::ranges::any_of(here.devices, old)) return {"libcublasLt.so.12"};
  return {"libcublasLt.so.13", "libcublasLt.so.12"};
}

std::string CublasProducts::version() const { return library_version() + (tf32_ ? " (TF32)" : ""); }

std::string library_version() {
  const std::size_t v = api().cublasLtGetVersion();
  return text("cuBLASLt ", v / 10000, '.', v / 100 % 100, '.', v % 100);
}

}  // namespace flotilla::compute::cuda
