#include "flotilla/files/corrections_file.hpp"

#include <gtest/gtest.h>

#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::files::corrections_file_test {
namespace {

using cluster::Correction;
using tests::expect_refused;
using tests::replaced;

cluster::Profile profile() {
  cluster::Profile p{"f", "s", "t", {}, {}, {}, {}};
  p.device_types = {{"cpu", cluster::DeviceKind::cpu, {1 << 30}, {1e11}, {2e11}, {1e10}, "probe"}};
  p.devices = {{Rank{0}, "cpu", "n1", "", 0, 1}};
  p.operation_times = {{"cpu", "mlp_forward", 1, 4, 128, Precision::bf16, {0.1}, 0.01}};
  return p;
}

std::vector<Correction> corrections() {
  Correction operation{.device_type = "cpu",
                       .operation = "mlp_forward",
                       .tensor_parallel = 2,
                       .sequences = 4,
                       .length = 128,
                       .precision = Precision::bf16,
                       .was = {1.0 / 3},
                       .now = {0.1 + 0.2},
                       .lower = 0.89,
                       .upper = 0.93,
                       .error_bar = 0.07,
                       .iterations = 18,
                       .run = "runs/\"a\"",
                       .step = 20};
  auto inferred = operation;
  inferred.operation = "head_loss";
  inferred.inferred = true;
  const Correction sums{.figure = Correction::Figure::sums,
                        .level = cluster::LinkLevel::wide,
                        .was = {0.25},
                        .now = {0.75},
                        .lower = 2.9,
                        .upper = 3.2,
                        .error_bar = 0.07,
                        .iterations = 18,
                        .run = "r",
                        .step = 40};
  return {operation, inferred, sums};
}

class CorrectionsFile : public ::testing::Test {
 protected:
  std::string written() {
    write_profile(file_, profile(), corrections());
    return read_text(file_);
  }
  const tests::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "profile-corrected.json";
};

TEST_F(CorrectionsFile, StandBesideTheProfileAndReadBackBitByBit) {
  const auto text = written();
  EXPECT_EQ(read_profile(file_), profile());
  const auto document = Json::read(file_);
  EXPECT_EQ(corrections_of(document), corrections());
  EXPECT_EQ(library_to_json(library_from_json(document), {}, corrections_of(document)), text);
}

TEST_F(CorrectionsFile, AProfileWithoutThemIsAsEver) {
  write_profile(file_, profile(), std::vector<Correction>{});
  EXPECT_EQ(read_text(file_), profile_to_json(profile()));
  EXPECT_TRUE(corrections_of(Json::read(file_)).empty());
}

TEST_F(CorrectionsFile, DamageIsRefusedWithThePlace) {
  const auto text = written();
  const auto refused = [&](const char* from, const char* to, const char* place) {
    expect_refused([&] { profile_from_json(replaced(text, from, to), "c.json"); }, place, "", "c.json");
  };
  refused("\"sums\"", "\"feelings\"", "/corrections/2/figure");
  refused("\"now_s\": 0.75", "\"now_s\": -1", "/corrections/2/now_s");
  refused("\"upper_quartile\": 3.2", "\"upper_quartile\": 1.0", "/corrections/2/upper_quartile");
  refused("\"step\": 40", "\"stride\": 40", "/corrections/2");
}

}  // namespace
}  // namespace flotilla::files::corrections_file_test
