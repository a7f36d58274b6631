#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "fixture.hpp"
#include "flotilla/options/documents.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::options {
namespace {

TEST(JobFile, FillsEveryType) {
  Fields f;
  auto t = table_of(f);
  t.read_toml(R"([training]
steps = 12
seed = -3
learning-rate = 1e-3
[model]
name = 'opt-tiny'
dropout = 0
[data]
train = ["a,b.txt", "c.txt"]
[plan]
replan = true
cuts = [0, 3, 6]
[device]
memory = "1.5GiB"
deadline = "2min"
link = "1GB/s"
colour = "green"
)",
              "job.toml");
  EXPECT_EQ(f.steps, 12);
  EXPECT_EQ(f.seed, -3);
  EXPECT_EQ(f.rate, 1e-3);
  EXPECT_EQ(f.dropout, 0.0);
  EXPECT_EQ(f.name, "opt-tiny");
  EXPECT_EQ(f.train, (std::vector<std::string>{"a,b.txt", "c.txt"}));
  EXPECT_TRUE(f.replan);
  EXPECT_EQ(f.cuts, (std::vector<int>{0, 3, 6}));
  EXPECT_EQ(f.memory, Bytes{3ll << 29});
  EXPECT_EQ(f.deadline, Seconds{120});
  EXPECT_EQ(f.limit, BytesPerSecond{1e9});
  EXPECT_EQ(f.colour, Colour::green);
  EXPECT_EQ(t.describe("training.steps").source, "job.toml:2:9");
}

TEST(JobFile, DottedKeysAndInlineTablesAreTheSame) {
  Fields f;
  auto t = table_of(f);
  t.read_toml("training.steps = 4\nmodel = { name = \"x\" }\n", "job.toml");
  EXPECT_EQ(f.steps, 4);
  EXPECT_EQ(f.name, "x");
}

struct Case {
  const char* toml;
  const char* message;
};

TEST(JobFile, MessagesNamePlaceExpectationAndRemedy) {
  const Case cases[] = {
      {"[training]\nstesp = 3", "job.toml:2:1: unknown key 'training.stesp'; did you mean [training] steps?"},
      {"[model]\nsteps = 3", "job.toml:2:1: unknown key 'model.steps'; did you mean [training] steps?"},
      {"steps = 3", "job.toml:1:1: unknown key 'steps'; did you mean [training] steps?"},
      {"[training]\nqqqqqqqqqqqqqqqqqq = 3", "job.toml:2:1: unknown key 'training.qqqqqqqqqqqqqqqqqq'; --help lists them all"},
      {"[trainng]\nsteps = 3",
       "job.toml:1:2: unknown section '[trainng]'; did you mean '[training]'? (expected [training] [model] [data] [plan] [device])"},
      {"training = 3", "job.toml:1:1: expected a section, got 3; write [training]"},
      {"[[training]]\nsteps = 3", "job.toml:1:3: expected a section, got a list; write [training]"},
      {"[training]\n  steps = \"ten\"",
       "job.toml:2:11: training.steps: expected an integer of at least 1, got 'ten'; write for example steps = 100"},
      {"[training]\nsteps = 1.5",
       "job.toml:2:9: training.steps: expected an integer of at least 1, got 1.5; write for example steps = 100"},
      {"[training]\nsteps = -1",
       "job.toml:2:9: training.steps: expected an integer of at least 1, got '-1'; write for example steps = 100"},
      {"[training]\nsteps = [1]",
       "job.toml:2:9: training.steps: expected an integer of at least 1, got a list; write for example steps = 100"},
      {"[training]\nsteps = 1979-05-27",
       "job.toml:2:9: training.steps: expected an integer of at least 1, got a date or time; write for example steps = 100"},
      {"[training.steps]\nx = 1",
       "job.toml:1:1: training.steps: expected an integer of at least 1, got a table; write for example steps = 100"},
      {"[training]\nlearning-rate = nan",
       "job.toml:2:17: training.learning-rate: expected a number above 0 and below 1, got 'nan'; write for example learning-rate = 0.0006"},
      {"[model]\nname = 3", "job.toml:2:8: model.name: expected a text, got 3; write for example name = \"gpt2\""},
      {"[plan]\nreplan = 1", "job.toml:2:10: plan.replan: expected true or false, got 1; write for example replan = false"},
      {"[data]\ntrain = \"a.txt\"",
       "job.toml:2:9: data.train: expected a list, each a file name, got 'a.txt'; write for example train = [\"FILE\"]"},
      {"[plan]\ncuts = [1,\n -2]",
       "job.toml:3:2: plan.cuts: expected a list, each an integer of at least 0, got '-2'; write for example cuts = [1]"},
      {"[device]\nmemory = 4",
       "job.toml:2:10: device.memory: '4' has no unit; expected a size with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB); write memory "
       "= "
       "\"4GiB\""},
      {"[device]\nmemory = \"4 parsecs\"",
       "job.toml:2:10: device.memory: expected a size with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), got '4 parsecs'; write for "
       "example memory = \"4GiB\""},
      {"[device]\ncolour = \"blue\"",
       "job.toml:2:10: device.colour: expected one of red, green, got 'blue'; write for example colour = \"red\""},
  };
  for (const auto& c : cases) {
    const auto error = toml_error(c.toml);
    EXPECT_STREQ(error.what(), c.message) << c.toml;
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  }
}

TEST(JobFile, SyntaxErrorsAndDuplicatesHaveLineAndColumn) {
  const std::string duplicate = toml_error("[training]\nsteps = 1\nsteps = 2\n").what();
  EXPECT_EQ(duplicate.rfind("job.toml:3:", 0), 0u) << duplicate;
  EXPECT_NE(duplicate.find("steps"), std::string::npos) << duplicate;
  const std::string section = toml_error("[training]\nsteps = 1\n[training]\nseed = 2\n").what();
  EXPECT_EQ(section.rfind("job.toml:3:", 0), 0u) << section;
  const std::string syntax = toml_error("[training]\nsteps = = 1\n").what();
  EXPECT_EQ(syntax.rfind("job.toml:2:", 0), 0u) << syntax;
  EXPECT_NE(syntax.find("not TOML"), std::string::npos) << syntax;
}

TEST(JobFile, TheFirstMistakeOfTheFileIsTheOneReported) {
  const std::string message = toml_error("[training]\nsteps = \"x\"\nbogus = 1\n[data]\nbogus = 1\n").what();
  EXPECT_EQ(message.rfind("job.toml:2:", 0), 0u) << message;
}

TEST(JobFile, MissingFolderAndOversizedFiles) {
  Fields f;
  auto t = table_of(f);
  const tests::TemporaryFolder folder;
  const auto missing = error_of([&] { t.read_file((folder / "none.toml").string()); });
  EXPECT_EQ(missing.kind(), ErrorKind::no_input);
  EXPECT_NE(std::string{missing.what()}.find("none.toml: cannot be opened (No such file or directory)"), std::string::npos)
      << missing.what();
  EXPECT_NE(std::string{error_of([&] { t.read_file(folder.path().string()); }).what()}.find("is a folder"), std::string::npos);
  const auto pipe = (folder / "pipe.toml").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(std::string{error_of([&] { t.read_file(pipe); }).what()}.find("is no regular file"), std::string::npos)
      << "opening it would hang";
  const auto big = (folder / "big.toml").string();
  std::ofstream{big} << "[training]\nsteps = 5\n" << std::string(1 << 20, '#');
  EXPECT_NE(std::string{error_of([&] { t.read_file(big); }).what()}.find("larger than 1 MiB"), std::string::npos);
  const auto good = (folder / "good.toml").string();
  std::ofstream{good} << "[training]\nsteps = 5\n";
  t.read_file(good);
  EXPECT_EQ(f.steps, 5);
  EXPECT_EQ(t.describe("training.steps").source, good + ":2:9");
}

struct Entry {
  std::string name;
  double weight = 1;
  std::vector<std::string> files;
};

struct List {
  Fields fields;
  std::vector<Entry> entries;
};

Table table_of(List& list) {
  auto table = table_of(list.fields);
  table.add_entries<Entry>("data.source", "Sources", &list.entries, [](Table& t, Entry& entry) {
    t.add("data.source.name", &entry.name, "name", {.value = "NAME"});
    t.add("data.source.weight", &entry.weight, "weight", {.above = 0});
    t.add("data.source.files", &entry.files, "files", {.value = "FILE"});
  });
  return table;
}

TEST(TomlLists, MayStandInNoSection) {
  struct Stop {
    std::string name;
  };
  std::vector<Stop> stops;
  int speed = 1;
  Table table;
  table.section("tour", "The tour");
  table.add("tour.speed", &speed, "speed");
  table.add_entries<Stop>("stop", "Stops", &stops, [](Table& t, Stop& stop) { t.add("stop.name", &stop.name, "name", {.value = "NAME"}); });
  table.read_toml("[[stop]]\nname = 'a'\n[tour]\nspeed = 2\n[[stop]]\nname = 'b'\n", "tour.toml");
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[1].name, "b");
  EXPECT_EQ(table.entries()[0].places, (std::vector<std::string>{"tour.toml:1:1", "tour.toml:5:1"}));
  EXPECT_NE(to_markdown(table).find("## [[stop]] Stops"), std::string::npos);
  EXPECT_NE(help(table, 80).find("Stops [[stop]], job file only"), std::string::npos);
  EXPECT_NE(tests::refusal([&] { table.read_toml("[[stop]]\nnam = 'a'\n", "tour.toml"); }).find("unknown key 'stop.nam'"),
            std::string::npos);
  EXPECT_NE(tests::refusal([&] { table.read_toml("stop = 5\n", "tour.toml"); }).find("expected tables, got 5; write [[stop]]"),
            std::string::npos);
  Table others;
  others.section("other", "Another command");
  others.pass_over(table);
  others.read_toml("[[stop]]\nname = 'a'\n", "tour.toml");
  EXPECT_EQ(others.passed_over(), std::vector<std::string>{"stop"});
}

constexpr const char* two_entries =
    "[data]\ntrain = [\"a\"]\n[[data.source]]\nname = \"web\"\nfiles = [\"a\", \"b\"]\n[[data.source]]\nweight = 0.1\n[model]\nname = \"x\"\n";

TEST(JobFile, ListsOfTables) {
  List list;
  auto t = table_of(list);
  t.read_toml(two_entries, "job.toml");
  ASSERT_EQ(list.entries.size(), 2u);
  EXPECT_EQ(list.entries[0].name, "web");
  EXPECT_EQ(list.entries[0].files, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(list.entries[0].weight, 1);
  EXPECT_EQ(list.entries[1].weight, 0.1);
  EXPECT_EQ(list.fields.name, "x");
  List again;
  auto other = table_of(again);
  other.read_toml(to_toml(t), "printed.toml");
  ASSERT_EQ(again.entries.size(), 2u) << to_toml(t);
  EXPECT_EQ(again.entries[0].files, list.entries[0].files);
  EXPECT_EQ(again.entries[1].weight, 0.1);
}

TEST(JobFile, ListsOfTablesAreCheckedLikeSections) {
  const auto message = [](const std::string& toml) {
    List list;
    auto t = table_of(list);
    return std::string{error_of([&] { t.read_toml(toml, "job.toml"); }).what()};
  };
  EXPECT_EQ(message("[[data.source]]\nwieght = 1\n"), "job.toml:2:1: unknown key 'data.source.wieght'; did you mean [data.source] weight?");
  EXPECT_EQ(message("[[data.source]]\nweight = 0\n"),
            "job.toml:2:10: data.source.weight: expected a number above 0, got '0'; write for example weight = 1");
  EXPECT_EQ(message("[data]\nsource = 5\n"), "job.toml:2:10: expected tables, got 5; write [[data.source]]");
  EXPECT_EQ(message("[data.source]\nname = 'a'\n"), "job.toml:1:1: expected tables, got a table; write [[data.source]]");
  EXPECT_NE(message("[data]\nsource = [{name = 'a'}, 5]\n").find("write [[data.source]]"), std::string::npos);
  EXPECT_NE(message("[[data.source]]\n[[data.source.files]]\n").find("data.source.files"), std::string::npos);
}

TEST(JobFile, OfAnotherCommandMayHaveListsOfTables) {
  List list;
  const auto other = table_of(list);
  Fields f;
  Table t;
  t.section("training", "The run");
  t.add("training.steps", &f.steps, "steps");
  t.pass_over(other);
  t.read_toml(two_entries, "job.toml");
  EXPECT_EQ(t.passed_over(), (std::vector<std::string>{"data.train", "data.source", "model.name"}));
}

}  // namespace
}  // namespace flotilla::options
