#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compute/harness.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"
#include "support/refusal.hpp"

namespace flotilla::compute::test {
namespace {

compute::Setup setup(Precision precision = Precision::fp32, int threads = 2) {
  return {uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false), 8, 1, 0, precision, threads, 1};
}

std::vector<float> random_floats(std::size_t count, std::uint64_t stream) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 2 * uniform(Philox{3, stream}(i)[0]) - 1;
  return values;
}

TEST(AdamW, IsTheTextbookUpdate) {
  const std::size_t n = 77;
  auto parameters = random_floats(n, 1), gradients = random_floats(n, 2), moment1 = random_floats(n, 3), moment2 = random_floats(n, 4);
  for (float& v : moment2) v *= v;
  const auto p0 = parameters, m0 = moment1, v0 = moment2;
  program::Part part;
  part.slots = {{0, 0, 40}, {1, 48, 29}};
  part.elements = 77;
  const AdamW a{
      .learning_rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-6f, .weight_decay = 0.1f, .gradient_factor = 0.5f, .step = 3};
  make_backend(setup())->adamw(a, part, std::vector<std::uint8_t>{1, 0}, parameters.data(), reinterpret_cast<std::byte*>(parameters.data()),
                               gradients.data(), moment1.data(), moment2.data());
  for (std::size_t i = 0; i < n; ++i) {
    if (i >= 40 && i < 48) {
      EXPECT_EQ(parameters[i], p0[i]) << "between slots";
      continue;
    }
    const double g = 0.5 * gradients[i], m = 0.9 * m0[i] + 0.1 * g, v = 0.95 * v0[i] + 0.05 * g * g;
    const double step = 0.01 * (m / (1 - std::pow(0.9, 3))) / (std::sqrt(v / (1 - std::pow(0.95, 3))) + 1e-6);
    EXPECT_NEAR(parameters[i], p0[i] * (1 - (i < 40 ? 0.01 * 0.1 : 0)) - step, 1e-6) << i;
    EXPECT_NEAR(moment1[i], m, 1e-6);
    EXPECT_NEAR(moment2[i], v, 1e-6);
  }
}

TEST(AdamW, RefreshesTheRoundedCopy) {
  std::vector<float> parameters{1.0f, -2.0f, 0.3f}, gradients(3), moments(3);
  std::vector<std::uint16_t> weights(3);
  program::Part part;
  part.slots = {{0, 0, 3}};
  part.elements = 3;
  std::vector<float> second(3);
  make_backend(setup(Precision::bf16))
      ->adamw({.learning_rate = 0.1f}, part, std::vector<std::uint8_t>{0}, parameters.data(), reinterpret_cast<std::byte*>(weights.data()),
              gradients.data(), moments.data(), second.data());
  EXPECT_EQ(weights, (std::vector<std::uint16_t>{0x3f80, 0xc000, 0x3e9a}));
}

TEST(SquaredNorm, HasTheSameBitsOnAnyThreadCount) {
  const auto values = random_floats(100003, 5);
  double expected = 0;
  for (float v : values) expected += static_cast<double>(v) * static_cast<double>(v);
  double one = 0, three = 0;
  make_backend(setup(Precision::fp32, 1))->add_squared_norm(values, &one);
  EXPECT_NEAR(one, expected, 1e-10 * expected);
  make_backend(setup(Precision::fp32, 3))->add_squared_norm(values, &three);
  EXPECT_EQ(one, three);
  make_backend(setup())->add_squared_norm({}, &three);
  EXPECT_EQ(one, three);
}

TEST(Convert, RoundsToNearestEvenAndKeepsTheSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::bit_cast<float>(0x7fffffffu);
  const std::vector<float> values{1.0f,
                                  std::bit_cast<float>(0x3f808000u),
                                  std::bit_cast<float>(0x3f818000u),
                                  std::bit_cast<float>(0x3f808001u),
                                  infinity,
                                  -infinity,
                                  nan,
                                  std::numeric_limits<float>::max(),
                                  -0.0f};
  std::vector<std::uint16_t> bits(values.size());
  make_backend(setup(Precision::bf16))->convert(values, reinterpret_cast<std::byte*>(bits.data()));
  EXPECT_EQ(bits, (std::vector<std::uint16_t>{0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0xff80, 0x7fc0, 0x7f80, 0x8000}));
}

TEST(Fill, ReachesEveryByte) {
  std::vector<std::byte> bytes(1001, std::byte{7});
  make_backend(setup())->fill(bytes, 3);
  EXPECT_EQ(bytes, std::vector<std::byte>(1001, std::byte{3}));
}

TEST(Scratch, TooSmallIsRefused) {
  const compute::Setup s{model::built_in("gpt2-mini"), 64, 1, 0, Precision::bf16, 2, 1};
  ASSERT_GT(library_scratch(s, 2).count, 0);
  const auto backend = make_backend(s);
  const model::LayerShape shape{2, 64, 1, 0, Precision::bf16};
  program::Part part;
  const auto tensors = model::tensors(s.model);
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].layer == 1) {
      part.slots.push_back({static_cast<int>(t), part.elements, tensors[t].elements()});
      part.elements += tensors[t].elements();
    }
  const std::int64_t workspace = model::workspace(s.model, shape, model::Operation::attention_forward, 2).count;
  std::vector<std::byte> memory(static_cast<std::size_t>(workspace) + 4 * static_cast<std::size_t>(part.elements) + (16u << 20));
  Task task;
  task.operation = model::Operation::attention_forward;
  task.layer = 1;
  task.sequences = 2;
  task.operands.fill(memory.data());
  task.part = &part;
  tests::expect_contains(tests::refusal(ErrorKind::internal, [&] { backend->run(task); }), "scratchpad");
}

TEST(Description, NamesLibraryImplementationAndThreads) {
  const std::string description = make_backend(setup())->description();
  EXPECT_EQ(description.rfind("oneDNN ", 0), 0u) << description;
  EXPECT_NE(description.find("kernels, 2 threads"), std::string::npos) << description;
}

}  // namespace
}  // namespace flotilla::compute::test
