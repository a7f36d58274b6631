// Event files read back by a decoder that shares nothing with their writer.
#include "flotilla/journal/tensorboard.hpp"

#include <sys/resource.h>

#include <bit>
#include <csignal>
#include <cstring>
#include <optional>

#include "support/child.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::journal {
namespace {

using tests::content;
using tests::TemporaryFolder;
namespace fs = std::filesystem;

/// CRC-32C bit by bit, as the standard defines it.
std::uint32_t slow_crc(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 == 1 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

bool checksum_fits(std::string_view bytes, std::uint64_t stored) {
  const auto crc = slow_crc(bytes);
  return stored == static_cast<std::uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8u);
}

/// Messages of a file; fails on a wrong checksum or a record in part.
std::vector<std::string> records(const fs::path& file) {
  const auto all = content(file);
  std::string_view rest = all;
  std::vector<std::string> out;
  while (!rest.empty()) {
    if (rest.size() < 12) return ADD_FAILURE() << "a record in part", out;
    EXPECT_TRUE(checksum_fits(rest.substr(0, 8), little_endian(rest.substr(8, 4))));
    const auto length = little_endian(rest.substr(0, 8));
    if (rest.size() < 16 + length) return ADD_FAILURE() << "a record in part", out;
    const auto data = rest.substr(12, length);
    EXPECT_TRUE(checksum_fits(data, little_endian(rest.substr(12 + length, 4))));
    out.emplace_back(data);
    rest.remove_prefix(16 + length);
  }
  return out;
}

/// A message's fields, by number: bytes of parts, or of numbers.
std::multimap<std::uint64_t, std::string> fields(std::string_view message) {
  std::multimap<std::uint64_t, std::string> out;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (!message.empty()) {
    const auto key = varint();
    std::size_t size = 0;
    switch (key % 8) {
      case 0: out.emplace(key / 8, std::to_string(varint())); continue;
      case 1: size = 8; break;
      case 2: size = varint(); break;
      case 5: size = 4; break;
      default: ADD_FAILURE() << "wire type " << key % 8; return out;
    }
    out.emplace(key / 8, message.substr(0, size));
    message.remove_prefix(std::min(size, message.size()));
  }
  return out;
}

std::string field(const std::string& message, std::initializer_list<std::uint64_t> path) {
  std::string at = message;
  for (const auto number : path) {
    const auto all = fields(at);
    const auto found = all.find(number);
    if (found == all.end()) return "";
    at = found->second;
  }
  return at;
}

double number(const std::string& bytes) { return std::bit_cast<double>(little_endian(bytes)); }

struct Value {
  std::string step;
  double time = 0;
  float value = 0;
};
std::map<std::string, std::vector<Value>> scalars(const std::vector<std::string>& events) {
  std::map<std::string, std::vector<Value>> out;
  for (const auto& event : events) {
    const auto of_event = fields(event);
    const auto summary = of_event.find(5);
    if (summary == of_event.end()) continue;
    for (const auto& [number_of_field, value] : fields(summary->second)) {
      if (number_of_field != 1 || field(value, {2}).empty()) continue;
      const auto bits = static_cast<std::uint32_t>(little_endian(field(value, {2})));
      out[field(value, {1})].push_back({field(event, {2}), number(field(event, {1})), std::bit_cast<float>(bits)});
    }
  }
  return out;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator{folder}) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

const TensorboardFile::Texts texts{"[training]\nsteps = 3\n", "1 stage", "{\"stages\": 1}"};

TEST(Tensorboard, EveryRecordIsReadBack) {
  const TemporaryFolder folder;
  {
    TensorboardFile file{folder / "logs", "n1/../x", 1, 0, texts};
    for (int step = 1; step <= 200; ++step)
      file.write(StepRecord{.step = step,
                            .loss = 1.0 / step,
                            .tokens_per_second = 1e6,
                            .step_seconds = 0.5,
                            .share_of_peak = 0.4,
                            .learning_rate = 3e-4,
                            .gradient_norm = 2,
                            .time = 1000.25 + step,
                            .sources = {{"web", 2.0 / step, 64}}});
    file.write(
        EvaluationRecord{.step = 200, .loss = 0.75, .sequences = 64, .seconds = 2, .time = 1300, .sources = {{"web", 0.5}, {"code", 1.0}}});
    file.write(CheckpointRecord{.step = 200, .bytes = 1, .seconds = 3, .time = 1301});
  }
  const auto all = files_in(folder / "logs");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(all[0].filename().string().find(".tfevents."), std::string::npos);
  EXPECT_NE(all[0].filename().string().find(".n1____x.1.0"), std::string::npos) << all[0];
  const auto events = records(all[0]);
  ASSERT_EQ(events.size(), 4u + 202u);
  EXPECT_EQ(field(events[0], {3}), "brain.Event:2");
  EXPECT_EQ(field(events[1], {7, 1}), "1");  // SessionLog::START
  EXPECT_EQ(field(events[1], {2}), "1");
  const auto found = scalars(events);
  ASSERT_EQ(found.at("loss/training").size(), 200u);
  EXPECT_EQ(found.at("loss/training")[199].step, "200");
  EXPECT_DOUBLE_EQ(found.at("loss/training")[199].time, 1200.25);
  EXPECT_FLOAT_EQ(found.at("loss/training")[199].value, 1.0f / 200);
  EXPECT_FLOAT_EQ(found.at("loss/training/web")[199].value, 2.0f / 200);
  EXPECT_FLOAT_EQ(found.at("optimizer/learning_rate")[0].value, 3e-4f);
  EXPECT_FLOAT_EQ(found.at("speed/mfu")[0].value, 0.4f);
  EXPECT_FLOAT_EQ(found.at("loss/validation")[0].value, 0.75f);
  EXPECT_FLOAT_EQ(found.at("loss/validation/web")[0].value, 0.5f);
  EXPECT_FLOAT_EQ(found.at("loss/validation/code")[0].value, 1.0f);
  EXPECT_FLOAT_EQ(found.at("speed/checkpoint_seconds")[0].value, 3);
}

TEST(Tensorboard, TextsAreShownAsTheyAre) {
  const TemporaryFolder folder;
  { const TensorboardFile file{folder, "n1", 1, 7, texts}; }
  const auto events = records(files_in(folder).at(0));
  EXPECT_EQ(field(events.at(2), {5, 1, 1}), "configuration");
  EXPECT_EQ(field(events.at(2), {5, 1, 9, 1, 1}), "text");
  EXPECT_EQ(field(events.at(2), {5, 1, 8, 8}), "    [training]\n    steps = 3\n    ");
  EXPECT_EQ(field(events.at(2), {5, 1, 8, 1}), "7");  // DT_STRING
  EXPECT_NE(field(events.at(3), {5, 1, 8, 8}).find("1 stage"), std::string::npos);
  EXPECT_EQ(field(events.at(3), {2}), "7");
}

TEST(Tensorboard, EachStartHasAFileAndVoidsWhatItRepeats) {
  const TemporaryFolder folder;
  { const TensorboardFile first{folder, "n1", 1, 0, texts}; }
  { const TensorboardFile second{folder, "n1", 2, 40, texts}; }
  const auto all = files_in(folder);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(field(records(all[1]).at(1), {2}), "41");
}

TEST(Tensorboard, ConfigurationsOfAnyLengthFit) {
  const TemporaryFolder folder;
  { const TensorboardFile file{folder, "n1", 1, 0, {std::string(100'000, 'x'), "", ""}}; }
  EXPECT_EQ(field(records(files_in(folder).at(0)).at(2), {5, 1, 8, 8}).size(), 100'004u);
}

/// What fits on a disk with so much room is there whole, and the rest follows when there is more.
TEST(Tensorboard, AFullDiskStopsNothing) {
  const TemporaryFolder folder;
  tests::Child child{[&] {
    signal(SIGXFSZ, SIG_IGN);
    const auto limit_files = [](rlim_t bytes) {
      rlimit limit{};
      getrlimit(RLIMIT_FSIZE, &limit);
      limit.rlim_cur = bytes;
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(2);
    };
    limit_files(1000);
    if (freopen((folder / "stderr").c_str(), "w", stderr) == nullptr) return 3;
    TensorboardFile file{folder / "logs", "n1", 1, 0, texts};
    for (int step = 1; step <= 20; ++step) file.write(StepRecord{.step = step, .loss = 1, .time = 1});
    limit_files(RLIM_INFINITY);
    file.write(StepRecord{.step = 21, .loss = 1, .time = 1});
    return 0;
  }};
  EXPECT_EQ(child.wait(), 0);
  const auto found = scalars(records(files_in(folder / "logs").at(0)));
  ASSERT_EQ(found.at("loss/training").size(), 21u);
  EXPECT_EQ(found.at("loss/training")[20].step, "21");
  const auto said = content(folder / "stderr");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("training continues, and records wait"), std::string::npos) << said;
}

TEST(Tensorboard, AFolderThatCannotBeMadeStopsNothing) {
  const TemporaryFolder folder;
  TensorboardFile file{folder.write("taken", "a file"), "n1", 1, 0, texts};
  file.write(StepRecord{.step = 1});
  EXPECT_EQ(content(folder / "taken"), "a file");
}

}  // namespace
}  // namespace flotilla::journal
