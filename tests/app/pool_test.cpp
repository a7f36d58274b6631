#include "app/common/pool.hpp"

#include <random>

#include "app/common/restrictions.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/search/binding.hpp"
#include "support/refusal.hpp"

namespace flotilla::app {
namespace {

using tests::error_of;

using Words = std::vector<std::string>;

options::Setting on_the_command_line(const std::string& alias) {
  options::Setting s;
  s.name = "plan." + alias;
  s.alias = alias;
  s.origin = options::Origin::command_line;
  s.environment = "FLOTILLA_PLAN_POOL";
  s.source = "command line";
  return s;
}

const cluster::Catalogue& catalogue() {
  static const auto built_in = files::built_in_catalogue();
  return built_in;
}

/// Knows a type of its own, one that the catalogue has too, and a CPU with an '@' in its name.
cluster::Profile small_library_profile() {
  cluster::Profile profile;
  for (const char* name : {"Own", "A100-40", "cpu:Xeon @ 2.60GHz:2t"}) {
    cluster::DeviceType type;
    type.name = name;
    type.per_node = std::string{name} == "Own" ? 3 : 0;
    profile.device_types.push_back(type);
  }
  return profile;
}

search::Pool pool_of(const Words& words) { return read_pool(words, on_the_command_line("pool"), small_library_profile(), catalogue()); }
Error error_with(const std::string& word) {
  return error_of([&] { pool_of({word}); });
}

TEST(Pool, IsReadAsItIsWritten) {
  const search::Pool expected{{"A100-40", "us-central1-a", 32, 4}, {"V100-16", "", 96, 2}, {"Own", "z", 5, 3}};
  EXPECT_EQ(pool_of({"A100-40@us-central1-a=32/4", "V100-16=96/2", "Own@z=5"}), expected);
}

TEST(Pool, NodesAreTheTypesUnlessSaid) {
  const auto nodes = [](const std::string& word) { return pool_of({word}).at(0).per_node; };
  EXPECT_EQ(nodes("Own=9"), 3);
  EXPECT_EQ(nodes("A100-40=9"), static_cast<int>(cluster::find(catalogue(), "A100-40")->devices_per_node.value));  // nobody measured it
  EXPECT_EQ(nodes("cpu:Xeon @ 2.60GHz:2t=9"), 8);
  EXPECT_EQ(nodes("Own=9/4096"), 4096);
}

TEST(Pool, DuplicatesAddUp) {
  const search::Pool expected{{"Own", "", 6, 3}, {"Own", "z", 3, 3}, {"Own", "", 4, 2}};
  EXPECT_EQ(pool_of({"Own=4", "Own@z=3", "Own=2/3", "Own=4/2"}), expected);
}

TEST(Pool, ATypeHasOneNameHoweverItIsSpelled) {
  for (const char* word : {"a100-40=1", "A100_40=1", "A100 40=1"}) EXPECT_EQ(pool_of({word}).at(0).device_type, "A100-40") << word;
  const auto pool = pool_of({"v100-16=1/8", "V100-16=1/8"});
  ASSERT_EQ(pool.size(), 1u);
  EXPECT_EQ(pool[0].device_type, "v100-16");
  EXPECT_EQ(pool[0].count, 2);
  // Another way of multiplying is another type.
  EXPECT_EQ(pool_of({"A100-40=1", "A100-40+tf32=1"}).size(), 2u);
}

TEST(Pool, AnAtSignOfATypesNameIsNoZone) {
  EXPECT_EQ(pool_of({"cpu:Xeon @ 2.60GHz:2t=4"}).at(0), (search::PoolEntry{"cpu:Xeon @ 2.60GHz:2t", "", 4, 8}));
  EXPECT_EQ(pool_of({"cpu:Xeon @ 2.60GHz:2t@rack=4"}).at(0), (search::PoolEntry{"cpu:Xeon @ 2.60GHz:2t", "rack", 4, 8}));
}

TEST(Pool, WhatIsWrongIsSaidInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"Own", "--pool Own: expected TYPE[@ZONE]=COUNT[/PER_NODE]; write for example A100-40@us-central1-a=32/4"},
      {"=3", "--pool =3: expected TYPE[@ZONE]=COUNT[/PER_NODE]; write for example A100-40@us-central1-a=32/4"},
      {"Own=", "--pool Own=: expected the number of devices behind the '=', from 1 to 1000000, got ''"},
      {"Own=0", "--pool Own=0: expected the number of devices behind the '=', from 1 to 1000000, got '0'"},
      {"Own=-4", "--pool Own=-4: expected the number of devices behind the '=', from 1 to 1000000, got '-4'"},
      {"Own=1.5", "--pool Own=1.5: expected the number of devices behind the '=', from 1 to 1000000, got '1.5'"},
      {"Own=1000001", "--pool Own=1000001: expected the number of devices behind the '=', from 1 to 1000000, got '1000001'"},
      {"Own=99999999999999999999",
       "--pool Own=99999999999999999999: expected the number of devices behind the '=', from 1 to 1000000, got '99999999999999999999'"},
      {"Own=4/0", "--pool Own=4/0: expected the number of devices in a node behind the '/', from 1 to 4096, got '0'"},
      {"Own=4/", "--pool Own=4/: expected the number of devices in a node behind the '/', from 1 to 4096, got ''"},
      {"Own=4@z", "--pool Own=4@z: the zone stands before the '='; write Own@z=4"},
      {"Own=4/2@z", "--pool Own=4/2@z: the zone stands before the '='; write Own@z=4/2"},
      {"Own=4,Own@z=4",
       "--pool Own=4,Own@z=4: expected one type, one '=' and one number; every type and zone takes an entry of its own, such as "
       "A100-40@us-central1-a=32/4"},
      {"Own@=4", "--pool Own@=4: expected a zone behind the '@'; leave both out where there is one zone"},
  };
  for (const auto& [word, what] : cases) {
    const auto error = error_with(word);
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(), what);
  }
  EXPECT_NE(std::string{error_with("A100-41=3").what()}.find(
                "device type 'A100-41'; did you mean 'A100-40' or 'A100-PCIe-40'?; docs/formats/device-names.md lists"),
            std::string::npos)
      << error_with("A100-41=3").what();
  EXPECT_NE(std::string{error_with("A100@z=3").what()}.find(
                "device type 'A100'; did you mean 'A100-40' or 'A100-PCIe-40' or 'A100-SXM-64' or 'A100-80' or 'A100-PCIe-80'?; docs"),
            std::string::npos)
      << error_with("A100@z=3").what();
  const auto many = error_of([] { pool_of({"Own=600000", "Own=400001"}); });
  EXPECT_STREQ(many.what(), "--pool Own=400001: with it the pool has 1000001 devices; expected 1000000 at most");
}

TEST(Pool, TheFilesPlaceIsNamedWhereItStandsThere) {
  auto option = on_the_command_line("pool");
  option.origin = options::Origin::job_file;
  option.source = "job.toml:3:8";
  const auto in_a_file = error_of([&] { read_pool({"Own=0"}, option, small_library_profile(), catalogue()); });
  EXPECT_EQ(in_a_file.kind(), ErrorKind::bad_input);
  EXPECT_EQ(std::string{in_a_file.what()}.rfind("job.toml:3:8: plan.pool = Own=0: expected the number", 0), 0u) << in_a_file.what();
  option.origin = options::Origin::environment;
  const auto in_the_environment = error_of([&] { read_pool({"Own=0"}, option, small_library_profile(), catalogue()); });
  EXPECT_EQ(std::string{in_the_environment.what()}.rfind("FLOTILLA_PLAN_POOL: plan.pool = Own=0: ", 0), 0u) << in_the_environment.what();
}

/// Any text is a pool or a refusal of one short line.
TEST(Pool, AnyTextIsAnswered) {
  std::mt19937 random{4};
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random); };
  const Words types{"Own", "own", "A100-40", "V100-16", "A100-41", "", "\xff", "\xc3\xa9", "cpu:Xeon @ 2.60GHz:2t", std::string(300, 'x')};
  const Words zones{"", "", "@z", "@", "@@", "@ ", "@" + std::string(300, 'z')};
  const Words counts{"=1", "=32", "=0", "=-1", "=9999999999", "==4", "=", "", "=4 "};
  const Words nodes{"", "", "/4", "/0", "/", "/4/4", "/-2", "/5000"};
  int read_well = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string word = types[below(types.size())] + zones[below(zones.size())] + counts[below(counts.size())] + nodes[below(nodes.size())];
    if (below(4) == 0 && !word.empty()) word[below(word.size())] = static_cast<char>(32 + below(224));
    try {
      const auto pool = pool_of({word});
      ASSERT_EQ(pool.size(), 1u) << word;
      EXPECT_GE(pool[0].count, 1) << word;
      EXPECT_GE(pool[0].per_node, 1) << word;
      EXPECT_FALSE(pool[0].device_type.empty()) << word;
      ++read_well;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
      EXPECT_EQ(std::string{error.what()}.find('\n'), std::string::npos) << error.what();
      EXPECT_LT(std::string{error.what()}.size(), 1000u) << error.what();
    }
  }
  EXPECT_GT(read_well, 100);
}

TEST(Pool, OfAProfileIsByTypeZoneAndHost) {
  cluster::Profile profile;
  int rank = 0;
  const auto add = [&](const char* type, const char* zone, const char* host, int count) {
    for (int i = 0; i < count; ++i) profile.devices.push_back({Rank{rank++}, type, host, zone, i, 1});
  };
  add("A", "", "h1", 4);
  add("A", "", "h2", 4);
  add("A", "", "h3", 2);
  add("B", "z", "h4", 1);
  add("A", "", "h4", 2);
  const search::Pool expected{{"A", "", 4, 2}, {"A", "", 8, 4}, {"B", "z", 1, 1}};
  EXPECT_EQ(search::pool_of_devices(profile), expected);
}

TEST(Pool, ALibraryGetsItsTypesAndNodes) {
  auto profile = small_library_profile();
  profile.devices.push_back({Rank{0}, "Own", "h", "", 0, 1});
  const auto completed = without_devices(profile, catalogue(), pool_of({"Own=4/2", "V100-16=8"}));
  EXPECT_TRUE(completed.devices.empty());
  EXPECT_EQ(cluster::find_type(completed, "Own")->per_node, 2);
  ASSERT_NE(cluster::find_type(completed, "V100-16"), nullptr);
  EXPECT_GT(cluster::find_type(completed, "V100-16")->memory.count, 0);
}

TEST(Pool, HasWhatAPlanTakesOrNot) {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 8, 4, Precision::fp32, 2, 1, 2, 1);
  for (auto& replica : plan.stages[0].replicas) replica.device_type = "Own", replica.zone = "z";
  EXPECT_NO_THROW(require_within(pool_of({"Own@z=3/2", "Own@z=1/4"}), plan, "plan.json"));
  const auto error = error_of([&] { require_within(pool_of({"Own@z=3", "Own=9"}), plan, "plan.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::no_plan);
  EXPECT_STREQ(error.what(), "plan.json: the plan takes 4 Own @ z, the pool has 3");
  EXPECT_STREQ(error_of([&] { require_within(pool_of({"A100-40=9"}), plan, "plan.json"); }).what(),
               "plan.json: the plan takes 4 Own @ z, the pool has 0");
}

TEST(Pool, ZonesThatNobodyMeasuredAreNamed) {
  auto profile = small_library_profile();
  EXPECT_EQ(unknown_zones(pool_of({"Own@anywhere=1"}), profile), "");  // it measured none
  profile.link_fits.push_back({"us-central1-a", "Own", 1, "us-west1-b", "Own", 1, 0, 0, 2, {2e9}});
  EXPECT_EQ(unknown_zones(pool_of({"Own@us-central1-a=1", "Own=1"}), profile), "");
  EXPECT_EQ(unknown_zones(pool_of({"Own@us-central-a=1", "Own@us-central-a=1/2", "Own@z=1"}), profile),
            "'us-central-a' (did you mean 'us-central1-a'?), 'z'");
}

TEST(Restrictions, AreNamesWithCommasOrRepeated) {
  const auto option = on_the_command_line("restrict");
  search::Restrictions expected;
  expected.equal_replicas = expected.even_layers = expected.one_device_type = true;
  EXPECT_EQ(read_restrictions({"equal-replicas,even-layers", "one-device-type"}, option), expected);
  EXPECT_EQ(search::names_of(expected), (Words{"equal-replicas", "even-layers", "one-device-type"}));
  EXPECT_EQ(read_restrictions({}, option), search::Restrictions{});
  for (const auto& name : search::restriction_names()) EXPECT_EQ(search::names_of(read_restrictions({name}, option)), Words{name});
  const std::string what = error_of([&] { read_restrictions({"equal-replicas,even-layer"}, option); }).what();
  EXPECT_EQ(what.rfind("--restrict equal-replicas,even-layer: no restriction is called 'even-layer'; did you mean 'even-layers'?", 0), 0u)
      << what;
  for (const char* nothing : {"", ",", "equal-replicas,"})
    EXPECT_EQ(error_of([&] { read_restrictions({nothing}, option); }).kind(), ErrorKind::usage) << nothing;
}

}  // namespace
}  // namespace flotilla::app
