#include "sources.hpp"

#include <gtest/gtest.h>

#include <set>

namespace flotilla::weights {
namespace {

/// Every row of ours has one source, and every row of a source is one of ours.
void expect_exact_cover(const model::Tensor& tensor, const std::vector<TensorSource>& parts) {
  std::vector<int> times(static_cast<std::size_t>(rows_of(tensor)));
  for (const auto& part : parts) {
    std::set<std::int64_t> theirs;
    for (std::int64_t b = 0; b < part.blocks; ++b)
      for (std::int64_t i = 0; i < part.block_rows; ++i) {
        ++times.at(static_cast<std::size_t>(part.our_first + b * part.our_stride + i));
        theirs.insert(part.their_first + b * part.their_stride + i);
      }
    EXPECT_EQ(static_cast<std::int64_t>(theirs.size()), part.blocks * part.block_rows) << part.name;
    EXPECT_LT(*theirs.rbegin(), part.transposed ? part.shape.back() : part.shape.front()) << part.name;
  }
  for (const int count : times) ASSERT_EQ(count, 1) << tensor.name;
}

TEST(Sources, CoverEveryBuiltInModelOnce) {
  for (const auto& name : model::built_in_names()) {
    auto config = model::built_in(name);
    if (model::forecast_only(config)) continue;
    config.blocks = std::min(config.blocks, 2);
    const auto tensors = model::tensors(config);
    const auto all = sources(config);
    ASSERT_EQ(all.size(), tensors.size()) << name;
    for (std::size_t t = 0; t < tensors.size(); ++t) expect_exact_cover(tensors[t], all[t]);
  }
}

}  // namespace
}  // namespace flotilla::weights
