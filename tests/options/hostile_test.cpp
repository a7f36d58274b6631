#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "fixture.hpp"

/// Whatever the bytes, reading them ends in values or in one line; never in a crash, a hang or a message of two lines.
namespace flotilla::options {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream{path, std::ios::binary}.rdbuf();
  return out.str();
}

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{FLOTILLA_CORPUS}) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// True where the text was taken.
bool read(const std::string& toml) {
  Fields f;
  auto t = table_of(f);
  try {
    t.read_toml(toml, "job.toml");
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("job.toml:", 0), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000u);
    return false;
  }
}

TEST(Hostile, CorpusIsTakenOrRefusedAsItsNamesSay) {
  const auto files = corpus();
  EXPECT_GE(files.size(), 12u);
  for (const auto& file : files) EXPECT_EQ(read(content(file)), file.filename().string().starts_with("good-")) << file;
}

std::string mutate(std::string text, std::mt19937& random) {
  static const std::string pieces[] = {"[",       "]",    "{",
                                       "}",       "\"",   "'",
                                       "\"\"\"",  "=",    ".",
                                       "\n",      "#",    ",",
                                       "\\u0000", "\xff", "\xed\xa0\x80",
                                       "1e999",   "-",    "training",
                                       "steps",   "\r",   std::string(1, '\0'),
                                       "[[",      "0x",   "1979-05-27T07:32:00Z",
                                       "inf"};
  for (std::uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
    const auto at = text.empty() ? 0 : random() % text.size();
    switch (random() % 4) {
      case 0: text.insert(at, pieces[random() % std::size(pieces)]); break;
      case 1: text.erase(at, random() % 8); break;
      case 2:
        if (!text.empty()) text[at] = static_cast<char>(random());
        break;
      default: text += text.substr(at, random() % 40);
    }
  }
  return text;
}

TEST(Hostile, MutatedFilesNeverEscapeTheTable) {
  std::mt19937 random{4711};
  const auto files = corpus();
  int taken = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto text = mutate(content(files[random() % files.size()]), random);
    (read(text) ? taken : refused) += 1;
  }
  // Both happen, or the mutations test nothing.
  EXPECT_GT(taken, 30);
  EXPECT_GT(refused, 300);
}

TEST(Hostile, TruncatedFilesNeverEscapeTheTable) {
  const auto text = content(std::filesystem::path{FLOTILLA_CORPUS} / "good-all.toml");
  for (std::size_t length = 0; length < text.size(); ++length) read(text.substr(0, length));
}

TEST(Hostile, DeepNestingIsRefusedBeforeItIsParsed) {
  const auto repeat = [](const std::string& piece, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += piece;
    return out;
  };
  for (const std::string& text : {repeat("a.", 300'000) + "a = 1", "[" + repeat("a.", 300'000) + "a]", "x = " + repeat("[", 300'000),
                                  "x = " + repeat("{a=", 300'000), "x = \"\"\"a\"\"\"\"\"\n" + repeat("a.", 300'000) + "a = 1",
                                  "x = '\"'\n" + repeat("a.", 300'000) + "a = 1", "# \"\n" + repeat("'a' . ", 300'000) + "a = 1"}) {
    EXPECT_FALSE(read(text));
    const std::string message = toml_error(text).what();
    EXPECT_NE(message.find("nested deeper"), std::string::npos) << message;
  }
}

TEST(Hostile, ArgumentsNeverEscapeTheTable) {
  static const std::string words[] = {"--training.steps",
                                      "--training.steps=5",
                                      "5",
                                      "-1",
                                      "--",
                                      "-",
                                      "",
                                      "--replan",
                                      "--replan=x",
                                      "-p",
                                      "-pq",
                                      "--=",
                                      "---",
                                      "--training.steps=",
                                      "=",
                                      "-=",
                                      "--plan.cuts",
                                      "1,2",
                                      ",",
                                      "\xff\xfe",
                                      "--device.memory",
                                      "1GiB",
                                      "--no-such",
                                      "-xyz",
                                      std::string(5000, 'a'),
                                      "--" + std::string(5000, 'b'),
                                      "\n",
                                      "--data.train"};
  std::mt19937 random{42};
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> arguments(random() % 6);
    for (auto& argument : arguments) argument = words[random() % std::size(words)];
    Fields f;
    auto t = table_of(f);
    try {
      t.read_command_line(arguments);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 1000u) << message;
    }
  }
}

}  // namespace
}  // namespace flotilla::options
