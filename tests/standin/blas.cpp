// A libcublasLt.so.13 for tests: cublasLtMatmul as its documentation says, for column-major matrices of fp32 (rounded to TF32 where that is
// asked for), bf16 and fp16 with sums in fp32 and the epilogues RELU and BIAS. What is not here answers "not supported".
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/blas_api.hpp"
#include "flotilla/base/half.hpp"

namespace flotilla::compute::cuda::blas {

#define FLOTILLA_DECLARE(name, result, ...) extern "C" __attribute__((visibility("default"))) result name(__VA_ARGS__);
FLOTILLA_BLAS_FUNCTIONS(FLOTILLA_DECLARE)
#undef FLOTILLA_DECLARE

struct HandleObject {};
struct DescriptionObject {
  int compute, operation_a = no_transpose, operation_b = no_transpose, finish = 1;  // 1: CUBLASLT_EPILOGUE_DEFAULT
  const void* bias_at = nullptr;
};
struct LayoutObject {
  int type;
  std::uint64_t rows, columns;
  std::int64_t pitch;
};
struct PreferenceObject {
  std::uint32_t a = 256, b = 256, c = 256, d = 256;  // as documented, where nothing is said
};

namespace {

/// The driver's side of this stand-in.
template <class Function>
Function of_driver(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

void* host_view(const void* p) {
  static const auto view = of_driver<void* (*)(const void*)>("flotilla_standin_host_view");
  return view(p);
}

float get(const void* matrix, int type, std::int64_t at) {
  if (type == type_fp32) return static_cast<const float*>(matrix)[at];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(matrix)[at];
  return type == type_fp16 ? half_to_float(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// To 11 significant bits, ties to even.
float rounded_to_tf32(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return v != v ? v : std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu);
}

void put(void* matrix, int type, std::int64_t at, float v) {
  if (type == type_fp32) {
    static_cast<float*>(matrix)[at] = v;
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(v);
  static_cast<std::uint16_t*>(matrix)[at] =
      type == type_fp16 ? half_from_float(v) : static_cast<std::uint16_t>(v != v ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Work {
  DescriptionObject description;
  LayoutObject a, b, c;
  const void *at_a, *at_b, *at_c;
  void* at_d;
  float alpha, beta;

  /// An operand as what is multiplied, (depth, outer): its outer index i, deep k stands at i * pitch + k (`along`) or at i + k * pitch.
  std::vector<float> factors(const void* at, const LayoutObject& m, bool along) const {
    const auto outer = static_cast<std::int64_t>(along ? m.columns : m.rows), depth = static_cast<std::int64_t>(along ? m.rows : m.columns);
    std::vector<float> all(static_cast<std::size_t>(outer * depth));
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t i = 0; i < outer; ++i) {
        const float v = get(at, m.type, along ? i * m.pitch + k : i + k * m.pitch);
        all[static_cast<std::size_t>(k * outer + i)] = description.compute == compute_tf32 ? rounded_to_tf32(v) : v;
      }
    return all;
  }
  /// Each sum in the order of its terms; those of a column side by side, for the compiler's vectors.
  void run() const {
    const auto x = factors(at_a, a, description.operation_a == transpose), y = factors(at_b, b, description.operation_b != transpose);
    const auto rows = static_cast<std::size_t>(c.rows), columns = static_cast<std::size_t>(c.columns);
    std::vector<float> sums(rows);
    for (std::size_t column = 0; column < columns; ++column) {
      std::ranges::fill(sums, 0.0f);
      for (std::size_t k = 0; k < y.size() / columns; ++k) {
        const float factor = y[k * columns + column];
        for (std::size_t row = 0; row < rows; ++row) sums[row] += x[k * rows + row] * factor;
      }
      for (std::size_t row = 0; row < rows; ++row)
        finish(static_cast<std::int64_t>(row), static_cast<std::int64_t>(column), alpha * sums[row]);
    }
  }
  void finish(std::int64_t row, std::int64_t column, float v) const {
    const std::int64_t at = row + column * c.pitch;
    if (beta != 0) v += beta * get(at_c, c.type, at);
    if (description.finish & epilogue_bias) v += get(description.bias_at, c.type, row);
    if ((description.finish & epilogue_relu) && v < 0) v = 0;
    put(at_d, c.type, at, v);
  }
};

bool agree(const DescriptionObject& d, const LayoutObject& a, const LayoutObject& b, const LayoutObject& c) {
  const bool turned_a = d.operation_a == transpose, turned_b = d.operation_b == transpose;
  const auto pitched = [](const LayoutObject& m) { return m.pitch >= static_cast<std::int64_t>(m.rows); };
  return (turned_a ? a.columns : a.rows) == c.rows && (turned_b ? b.rows : b.columns) == c.columns &&
         (turned_a ? a.rows : a.columns) == (turned_b ? b.columns : b.rows) && pitched(a) && pitched(b) && pitched(c) && a.type == b.type &&
         (c.type == a.type || c.type == type_fp32);
}

bool is_multiple(const void* address, std::uint32_t of) { return reinterpret_cast<std::uintptr_t>(address) % of == 0; }

template <class Value>
bool read(Value& to, const void* from, std::size_t size) {
  if (size != sizeof to) return false;
  std::memcpy(&to, from, size);
  return true;
}

}  // namespace

Status cublasLtCreate(Handle* handle) {
  *handle = new HandleObject;
  return success;
}
Status cublasLtDestroy(Handle handle) {
  delete handle;
  return success;
}
std::size_t cublasLtGetVersion() { return 130100; }

Status cublasLtMatmulDescCreate(Description* description, int compute, int scale) {
  if ((compute != compute_fp32 && compute != compute_tf32) || scale != type_fp32) return not_supported;
  *description = new DescriptionObject{compute};
  return success;
}
Status cublasLtMatmulDescDestroy(Description description) {
  delete description;
  return success;
}
Status cublasLtMatmulDescSetAttribute(Description d, int attribute, const void* value, std::size_t size) {
  bool good = false;
  if (attribute == transpose_a) good = read(d->operation_a, value, size);
  if (attribute == transpose_b) good = read(d->operation_b, value, size);
  if (attribute == epilogue) good = read(d->finish, value, size);
  if (attribute == bias) good = read(d->bias_at, value, size);
  return good ? success : invalid_value;
}

Status cublasLtMatrixLayoutCreate(Layout* layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t pitch) {
  if (type != type_fp32 && type != type_bf16 && type != type_fp16) return not_supported;
  *layout = new LayoutObject{type, rows, columns, pitch};
  return success;
}
Status cublasLtMatrixLayoutDestroy(Layout layout) {
  delete layout;
  return success;
}

Status cublasLtMatmulPreferenceCreate(Preference* preference) {
  *preference = new PreferenceObject;
  return success;
}
Status cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return success;
}
Status cublasLtMatmulPreferenceSetAttribute(Preference preference, int attribute, const void* value, std::size_t size) {
  if (attribute == most_workspace) return size == sizeof(std::size_t) ? success : invalid_value;
  if (attribute == reduction_schemes) return size == sizeof(std::uint32_t) ? success : invalid_value;
  const auto alignment = [&](std::uint32_t& to) { return read(to, value, size) ? success : invalid_value; };
  if (attribute == alignment_a) return alignment(preference->a);
  if (attribute == alignment_b) return alignment(preference->b);
  if (attribute == alignment_c) return alignment(preference->c);
  if (attribute == alignment_d) return alignment(preference->d);
  return not_supported;
}

Status cublasLtMatmulAlgoGetHeuristic(Handle, Description description, Layout a, Layout b, Layout c, Layout d, Preference preference,
                                      int requested, Heuristic* results, int* returned) {
  *returned = 0;
  if (requested < 1 || std::memcmp(c, d, sizeof *c) != 0) return invalid_value;
  if (!agree(*description, *a, *b, *c)) return not_supported;
  results[0] = {};
  std::memcpy(&results[0].algorithm, preference, sizeof *preference);  // an algorithm for operands of such alignments
  *returned = 1;
  return success;
}

Status cublasLtMatmul(Handle handle, Description description, const void* alpha, const void* at_a, Layout a, const void* at_b, Layout b,
                      const void* beta, const void* at_c, Layout c, void* at_d, Layout, const Algorithm* algorithm, void* workspace,
                      std::size_t, void* stream) {
  static const auto enqueue = of_driver<bool (*)(void*, void (*)(void*), void*)>("flotilla_standin_enqueue");
  if (!handle || !algorithm || !agree(*description, *a, *b, *c)) return invalid_value;
  PreferenceObject chosen;
  std::memcpy(static_cast<void*>(&chosen), algorithm, sizeof chosen);
  const bool aligned = is_multiple(at_a, chosen.a) && is_multiple(at_b, chosen.b) && is_multiple(at_c, chosen.c) &&
                       is_multiple(at_d, chosen.d) && is_multiple(workspace, 256);  // the workspace's: seen with 13.1 on an H100
  if (!aligned) return invalid_value;
  auto* work = new Work{*description, *a, *b, *c, host_view(at_a), host_view(at_b), host_view(at_c), host_view(at_d), 0, 0};
  std::memcpy(&work->alpha, alpha, sizeof work->alpha);
  std::memcpy(&work->beta, beta, sizeof work->beta);
  if (work->description.finish & epilogue_bias) work->description.bias_at = host_view(work->description.bias_at);
  const auto run = [](void* p) {
    std::unique_ptr<Work> { static_cast<Work*>(p) } -> run();
  };
  return enqueue(stream, run, work) ? success : invalid_value;
}

}  // namespace flotilla::compute::cuda::blas
