#include "rectangles.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace flotilla::store {
namespace {

using Shape = std::vector<std::int64_t>;

/// Elements of the whole per step of a dimension.
std::int64_t step(const Shape& shape, std::size_t dimension) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, shape.end(), std::int64_t{1}, std::multiplies<>{});
}

/// A run of elements of the whole as rectangles: what is left of a started row, whole rows, the beginning of another.
class RunSplitter {
 public:
  RunSplitter(const Shape& shape, std::int64_t memory_offset) : shape_{shape}, memory_{memory_offset} {}

  std::vector<FileRectangle> split(std::int64_t first, std::int64_t count) {
    prefix_.clear();
    add(0, first, count);
    return std::move(result_);
  }

 private:
  void add(std::size_t dimension, std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    const std::int64_t width = step(shape_, dimension);
    const std::int64_t head = std::min(count, (width - first % width) % width);
    if (head > 0) descend(dimension, first, head);
    const std::int64_t whole = (count - head) / width;
    if (whole > 0) emit(dimension, (first + head) / width, whole);
    const std::int64_t done = head + whole * width;
    if (count > done) descend(dimension, first + done, count - done);
  }

  void descend(std::size_t dimension, std::int64_t first, std::int64_t count) {
    const std::int64_t width = step(shape_, dimension);
    prefix_.push_back(first / width);
    add(dimension + 1, first % width, count);
    prefix_.pop_back();
  }

  void emit(std::size_t dimension, std::int64_t first, std::int64_t count) {
    FileRectangle rectangle;
    for (auto index : prefix_) {
      rectangle.start.push_back(static_cast<hsize_t>(index));
      rectangle.count.push_back(1);
    }
    rectangle.start.push_back(static_cast<hsize_t>(first));
    rectangle.count.push_back(static_cast<hsize_t>(count));
    for (std::size_t d = dimension + 1; d < shape_.size(); ++d) {
      rectangle.start.push_back(0);
      rectangle.count.push_back(static_cast<hsize_t>(shape_[d]));
    }
    rectangle.inner = rectangle.stride = count * step(shape_, dimension);
    rectangle.offset = memory_;
    memory_ += rectangle.inner;
    result_.push_back(std::move(rectangle));
  }

  const Shape& shape_;
  std::int64_t memory_;
  Shape prefix_;
  std::vector<FileRectangle> result_;
};

/// The dimension along which all runs of the box lie at the same columns, or -1.
int stacking_dimension(const Shape& shape, const plan::Box& box) {
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    const std::int64_t width = step(shape, d);
    const std::int64_t row = box.global_offset / width % shape[d];
    if (box.global_stride == width && box.global_offset % width + box.inner <= width && row + box.outer <= shape[d])
      return static_cast<int>(d);
  }
  return -1;
}

void append_runs(std::vector<FileRectangle>& result, const Shape& shape, const plan::Box& box, std::int64_t most) {
  for (std::int64_t o = 0; o < box.outer; ++o)
    for (std::int64_t done = 0; done < box.inner; done += most) {
      const auto pieces = RunSplitter{shape, box.local_offset + o * box.local_stride + done}.split(
          box.global_offset + o * box.global_stride + done, std::min(most, box.inner - done));
      result.insert(result.end(), pieces.begin(), pieces.end());
    }
}

void append_stack(std::vector<FileRectangle>& result, const Shape& shape, const plan::Box& box, std::size_t dimension, std::int64_t most) {
  const std::int64_t rows = std::max<std::int64_t>(1, most / box.inner);
  for (std::int64_t o = 0; o < box.outer; o += rows) {
    auto pieces = RunSplitter{shape, box.local_offset + o * box.local_stride}.split(box.global_offset + o * box.global_stride, box.inner);
    for (auto& piece : pieces) {
      piece.outer = std::min(rows, box.outer - o);
      piece.stride = box.local_stride;
      piece.count[dimension] = static_cast<hsize_t>(piece.outer);
    }
    result.insert(result.end(), pieces.begin(), pieces.end());
  }
}

}  // namespace

std::vector<FileRectangle> rectangles(const Shape& shape, const plan::Box& box, std::int64_t most) {
  std::vector<FileRectangle> result;
  if (box.outer <= 0 || box.inner <= 0) return result;
  const int dimension = box.outer > 1 ? stacking_dimension(shape, box) : -1;
  if (dimension < 0)
    append_runs(result, shape, box, most);
  else
    append_stack(result, shape, box, static_cast<std::size_t>(dimension), most);
  return result;
}

}  // namespace flotilla::store
