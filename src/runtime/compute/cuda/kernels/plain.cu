#include "kernel_base.hpp"

namespace flotilla::compute::cuda {

/// to[column] += the parts' sums, in order; of partials (sums, parts, width), block y adds to the y-th of three vectors.
extern "C" __global__ void add_column_sums(float* first, float* second, float* third, const float* partials, int parts, int width) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= width) return;
  float* const to = blockIdx.y == 0 ? first : blockIdx.y == 1 ? second : third;
  float sum = 0;
  for (int part = 0; part < parts; ++part) sum += partials[(std::int64_t{blockIdx.y} * parts + part) * width + column];
  to[column] += sum;
}

/// Of the threads' values, in a fixed order, to thread 0.
template <int threads>
__device__ double ordered_block_sum(double v, double* values) {
  values[threadIdx.x] = v;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = values[0];
  __syncthreads();
  return sum;
}

/// *out += sum of squares, in an order that depends on n alone. The last block to come adds the blocks' sums; `counter` is 0 before and
/// after.
extern "C" __global__ void squared_norm(double* out, double* partials, unsigned* counter, const float* x, std::int64_t n) {
  FLOTILLA_SHARED(double, values, [norm_threads]);
  FLOTILLA_SHARED(int, last, [1]);
  double sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += std::int64_t{gridDim.x} * blockDim.x)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  sum = ordered_block_sum<norm_threads>(sum, values);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
#if !defined(FLOTILLA_PLANT_MISSING_FENCE)
    __threadfence();
#endif
    last[0] = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
#if !defined(FLOTILLA_PLANT_MISSING_FENCE)
    __threadfence();
#endif
  }
  __syncthreads();
  if (!last[0]) return;
  double total = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) total += partials[i];
  total = ordered_block_sum<norm_threads>(total, values);
  if (threadIdx.x == 0) *out += total;
}

/// *out += -log p(target) of the rows from `first` to `last` from the members' stats, in one block and a fixed order.
extern "C" __global__ void head_loss(double* out, double* counted, const float* gathered, KernelHeadRows h, int first, int last) {
  FLOTILLA_SHARED(double, values, [loss_threads]);
  double loss = 0, count = 0;
  for (int row = first + static_cast<int>(threadIdx.x); row < last; row += loss_threads) {
    float maximum = -INFINITY, target = -INFINITY;
    for (int m = 0; m < h.members; ++m) {
      const float* stats = gathered + 3 * (std::int64_t{m} * h.rows + row);
      maximum = fmaxf(maximum, stats[0]);
      target = fmaxf(target, stats[2]);
    }
    if (target > maximum) continue;  // it does not count: no logit is above the maximum
    double sum = 0;
    for (int m = 0; m < h.members; ++m) {
      const float* stats = gathered + 3 * (std::int64_t{m} * h.rows + row);
      sum += static_cast<double>(stats[1]) * exp(static_cast<double>(stats[0]) - static_cast<double>(maximum));
    }
    loss += static_cast<double>(maximum) - static_cast<double>(target) + log(sum);
    ++count;
  }
  loss = ordered_block_sum<loss_threads>(loss, values);
  __syncthreads();
  count = ordered_block_sum<loss_threads>(count, values);
  if (threadIdx.x != 0) return;
  *out += loss;
  *counted += count;
}

}  // namespace flotilla::compute::cuda
