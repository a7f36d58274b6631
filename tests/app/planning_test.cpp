#include "app/plan/planning.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "app/common/commands.hpp"
#include "app/common/planning_options.hpp"
#include "app/common/planning_task.hpp"
#include "app/common/planning_text.hpp"
#include "app/common/stage_table.hpp"
#include "app/documented.hpp"
#include "app/import/import.hpp"
#include "app/inspect/inspect.hpp"
#include "app/simulate/simulate.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/planning_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "simulate/cluster_fixture.hpp"
#include "support/published_data.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::app {
namespace {

using tests::content;
using tests::TemporaryFolder;

using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The command on types of the built-in catalogue, and what it says.
class Plan : public testing::Test {
 protected:
  const Words small_{"--model.name=opt-125m",     "--training.global-batch=16", "--training.length=256",
                     "--training.precision=fp32", "--pool=A100-40=4/2",         "--pool=V100-16=4/2"};

  int run(const Words& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const std::vector<Command> commands{{"plan", "find a plan", "[JOB]", find_plan, planning_options}};
    const int code = run_command(commands, Words{"plan"} + words, [] { return std::vector<std::pair<std::string, std::string>>{}; });
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }
  files::Json json(const Words& words) {
    EXPECT_EQ(run(words + Words{"--format=json"}), 0) << err_;
    return files::Json::parse(out_, "stdout");
  }
  std::string simulated(const Words& words) {
    testing::internal::CaptureStdout();
    simulate(words);
    return testing::internal::GetCapturedStdout();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Ends with that code, one line of error and nothing on standard output.
  void expect_refused(const Words& words, int code, const std::string& part) {
    EXPECT_EQ(run(words), code) << err_;
    EXPECT_EQ(out_, "");
    EXPECT_EQ(err_.rfind("flotilla: error: ", 0), 0u) << err_;
    EXPECT_EQ(std::ranges::count(err_, '\n'), 1) << err_;
    EXPECT_NE(err_.find(part), std::string::npos) << err_ << "lacks " << part;
  }

  TemporaryFolder folder_;
  std::string out_, err_;
};

TEST_F(Plan, JsonHasEverythingAndReadsBackAsItWasWritten) {
  const auto d = json(small_);
  EXPECT_EQ(err_, "");
  EXPECT_EQ(d.get_string("format"), "flotilla-planning");
  for (const char* key : {"plan", "forecast", "alternatives", "bound_gap", "finished", "search_seconds", "considered", "pruned",
                          "objective", "binding", "space"})
    EXPECT_TRUE(d.has(key)) << key;
  const auto planning = files::planning_from_json(d);
  EXPECT_EQ(files::planning_to_json(planning), out_);
  ASSERT_TRUE(planning.answer.best);
  EXPECT_EQ(planning.answer.best->plan.global_batch, 16);
  EXPECT_GT(planning.searched.value, 0);
  EXPECT_FALSE(planning.cut_off);
  EXPECT_TRUE(d.at("no_plan_reason").is_null());
  EXPECT_EQ(d.at("objective").get_string("goal"), "throughput");
  EXPECT_NEAR(d.at("objective").get_double("value"), d.at("forecast").get_double("iteration_seconds"), 1e-12);
  const double best = d.at("forecast").get_double("iteration_seconds");
  EXPECT_FALSE(planning.answer.alternatives.empty());
  for (const auto& other : planning.answer.alternatives) {
    EXPECT_GE(other.iteration.value, best * (1 - 1e-9));
    EXPECT_FALSE(other.reason.empty());
  }
}

TEST_F(Plan, TheForecastIsWhatSimulateSaysOfThePlanAlone) {
  for (const char* nodes : {"2", "4"}) {
    const Words pool{text("--pool=A100-40=4/", nodes), text("--pool=V100-16=4/", nodes)};
    const auto d = json(
        Words{"--model.name=opt-125m", "--training.global-batch=16", "--write-plan", path("plan.json"), "--price=A100-40=3USD/h"} + pool);
    EXPECT_EQ(files::read_plan(path("plan.json")), files::plan_from_json(d.at("plan")));
    const auto same = files::Json::parse(simulated(Words{path("plan.json"), "--format=json", "--price=A100-40=3USD/h"} + pool), "simulate");
    EXPECT_EQ(d.at("forecast").one_line(), same.one_line());
  }
}

TEST_F(Plan, TheTextSaysPlanForecastProofAndWhatLost) {
  EXPECT_EQ(run(small_), 0);
  EXPECT_EQ(err_, "");
  EXPECT_EQ(out_.rfind("objective  highest throughput\ndevices    ", 0), 0u) << out_;
  std::size_t at = 0;
  for (const char* part :
       {"of 4 A100-40", "\nmodel      opt-125m, 16 sequences of 256 tokens, fp32\n", "\nplan ", "\nstage  layers", "+embedding", "+head",
        "\niteration  ", "\nspeed ", " iterations/s", "\nmemory ", "\nproven     no plan in the search space is better", "\nsearch ",
        " plans", "evaluated", "\nspace ", "\nnext best ", "\n  "}) {
    const auto found = out_.find(part, at);
    if (std::string{part} != "of 4 A100-40") {
      ASSERT_NE(found, std::string::npos) << part << "\n" << out_;
      at = found;
    }
  }
  std::istringstream lines{out_};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_EQ(out_.find('\r'), std::string::npos);
  EXPECT_EQ(out_.find('\033'), std::string::npos);
}

TEST_F(Plan, InspectShowsTheFileAsTheCommandDid) {
  run(small_ + Words{"--format=json", "-o", path("planning.json")});
  EXPECT_EQ(out_, "");
  const auto written = content(folder_ / "planning.json");
  const auto planning = files::planning_from_json(written, "file");
  testing::internal::CaptureStdout();
  EXPECT_EQ(inspect(Words{path("planning.json"), "--format=json"}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), written);
  testing::internal::CaptureStdout();
  EXPECT_EQ(inspect(Words{path("planning.json")}), 0);
  const auto shown = testing::internal::GetCapturedStdout();
  run(small_);
  // All but the time that the search took.
  const auto search = [](const std::string& text) { return std::pair{text.find("\nsearch "), text.find("\nspace ")}; };
  EXPECT_EQ(shown.substr(0, search(shown).first), out_.substr(0, search(out_).first));
  EXPECT_EQ(shown.substr(search(shown).second), out_.substr(search(out_).second));
}

/// "82.6 ms", in seconds.
double seconds_in(const std::string& number, const std::string& unit) {
  const std::map<std::string, double> units{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}};
  return std::stod(number) * units.at(unit);
}

TEST_F(Plan, WhatARivalLostAndGainedAddsUpToTheDifference) {
  const std::regex head{R"(% \(([0-9.]+) (us|ms|s|min)\) slower: )"}, part{R"(([0-9.]+) (us|ms|s|min) (more|less) )"};
  int looked_at = 0;
  for (const char* pool : {"--pool=T4=4/4", "--pool=H100-80=4/4"}) {
    const auto d = json(Words{"--model.name=opt-125m", "--training.global-batch=64", "--training.length=256", "--pool=A100-40=8/4", pool});
    for (const auto& other : d.at("alternatives").items()) {
      const auto reason = other.get_string("reason");
      std::smatch found;
      if (!std::regex_search(reason, found, head)) continue;
      const double difference = seconds_in(found[1], found[2]);
      double sum = 0;
      for (std::sregex_iterator at{reason.begin(), reason.end(), part}, end; at != end; ++at)
        sum += ((*at)[3] == "more" ? 1 : -1) * seconds_in((*at)[1], (*at)[2]);
      EXPECT_NEAR(sum, difference, 0.08 * difference) << reason;  // a twentieth is not told, and figures are rounded
      ++looked_at;
    }
  }
  EXPECT_GE(looked_at, 4);
}

TEST_F(Plan, ObjectivesAndLimitsReachThePlanner) {
  const Words prices{"--price=A100-40=4USD/h", "--price=V100-16=1USD/h", "--billing=A100-40=8units/h", "--billing=V100-16=2units/h"};
  const auto fastest = json(small_ + prices);
  const auto cheapest = json(small_ + prices + Words{"--objective.minimise=cost"});
  EXPECT_LT(cheapest.at("forecast").get_double("cost_per_iteration_usd"), fastest.at("forecast").get_double("cost_per_iteration_usd"));
  EXPECT_NEAR(cheapest.at("objective").get_double("value"), cheapest.at("forecast").get_double("cost_per_iteration_usd"), 1e-12);
  for (const char* goal : {"billing", "energy"})
    EXPECT_EQ(json(small_ + prices + Words{"--objective.minimise", goal}).at("objective").get_string("goal"), goal);
  const auto few = json(small_ + Words{"--limit.devices=2"});
  EXPECT_LE(few.at("forecast").get_int("devices"), 2);
  const auto quick = json(small_ + prices + Words{"--objective.minimise=cost", "--limit.iterations-per-second=5"});
  EXPECT_LE(quick.at("forecast").get_double("iteration_seconds"), 0.2);
  EXPECT_GT(cheapest.at("forecast").get_double("iteration_seconds"), 0.2);  // else the limit says nothing
  const double usd = cheapest.at("forecast").get_double("cost_per_iteration_usd") * 1.05;
  const auto within = json(small_ + prices + Words{"--limit.iteration-cost", text(usd, "usd"), "--limit.hourly-cost=20usd"});
  EXPECT_LE(within.at("forecast").get_double("cost_per_iteration_usd"), usd * (1 + 1e-9));
  EXPECT_DOUBLE_EQ(within.at("objective").at("limits").get_double("cost_per_hour_usd"), 20);
}

TEST_F(Plan, ASitesPricesServeAnyPool) {
  const Words job{"--model.name=opt-125m", "--training.global-batch=4", "--training.length=64", "--pool=H100=1"};
  const Words slurm_cluster{"--price=h100-80=36USD/h", "--price=V100-16=1USD/h", "--billing=T4=1units/h"};  // two are not in the pool
  const auto d = json(job + slurm_cluster);
  EXPECT_NEAR(d.at("forecast").get_double("device_usd"), d.at("forecast").get_double("iteration_seconds") * 36 / 3600, 1e-12);
  EXPECT_TRUE(d.at("forecast").at("billing_units").is_null());
  expect_refused({folder_.write("job.toml", "[plan]\npool = [\"H100=1\"]\nprice = [\"H100=1EUR/h\"]\n")}, 65,
                 "job.toml:3:9: plan.price = H100=1EUR/h: expected the unit USD/h, got 'EUR/h'; write for example A100-40=2.50USD/h");
}

TEST_F(Plan, TheHourOfTheDevicesIsToldBesideTheHourOfAll) {
  run({"--model.name=opt-125m", "--training.global-batch=64", "--pool=V100-16@a=4", "--pool=V100-16@b=4", "--price=V100-16=1USD/h",
       "--egress=a:b=0.02USD/GB", "--egress=b:a=0.02USD/GB"});
  std::string one_line;  // however it is broken
  for (const char c : out_)
    if (c != '\n' && (c != ' ' || one_line.empty() || one_line.back() != ' '))
      one_line += c;
    else if (c == '\n' && !one_line.empty() && one_line.back() != ' ')
      one_line += ' ';
  EXPECT_NE(one_line.find(" an hour (devices $8.00)"), std::string::npos) << out_;
}

/// First cells of the table of plans that lost, and their devices where these are others than the best plan's.
std::vector<std::string> names_of_alternatives(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream lines{text.substr(std::min(text.size(), text.find("next best")))};
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && std::isdigit(static_cast<unsigned char>(line[0])) != 0) names.push_back(line.substr(0, line.find("  ")));
    if (line.starts_with("  on ")) names.back() += line;
  }
  return names;
}

TEST_F(Plan, AlternativesAreToldApart) {
  for (const char* pool : {"--pool=A100-40=4", "--pool=V100-16=8", "--pool=A100-40@a=8/4"}) {
    out_.clear();
    run({"--model.name=opt-125m", "--training.global-batch=64", pool});
    const auto names = names_of_alternatives(out_);
    EXPECT_GE(names.size(), 2U) << out_;
    EXPECT_EQ((std::set<std::string>{names.begin(), names.end()}).size(), names.size()) << out_;
  }
}

/// Two zones and prices.
const Words far_apart{
    "--model.name=opt-125m",        "--training.global-batch=16", "--training.length=256", "--pool=A100-40@us-east1-b=4/2",
    "--pool=T4@europe-west4-a=4/2", "--price=A100-40=3USD/h",     "--price=T4=0.4USD/h"};

TEST_F(Plan, LinksBetweenZonesThatNobodyMeasuredAreAssumedAloud) {
  const auto d = json(far_apart);
  EXPECT_NE(err_.find("assumed: europe-west4-a:us-east1-b=2Gbit/s,75ms (different continents)"), std::string::npos) << err_;
  EXPECT_NE(err_.find("--link FROM:TO=BANDWIDTH,LATENCY"), std::string::npos) << err_;
  EXPECT_EQ(std::ranges::count(err_, '\n'), 1) << err_;
  ASSERT_EQ(d.at("assumed_links").size(), 1u);
  EXPECT_EQ(d.at("assumed_links").items()[0].get_string("distance"), "world");
  run(far_apart);
  EXPECT_NE(out_.find("\nlinks      assumed: europe-west4-a:us-east1-b=2Gbit/s,75ms"), std::string::npos) << out_;
  const Words stated{"--link=us-east1-b:europe-west4-a=100Gbit/s,1ms"};
  EXPECT_EQ(json(far_apart + stated).at("assumed_links").size(), 0u);
  EXPECT_EQ(err_, "");
}

/// One replica in either zone: gradients cross the ocean.
double seconds_of_two_zones(const files::Json& planning) { return planning.at("forecast").get_double("iteration_seconds"); }

TEST_F(Plan, AStatedLinkIsWhatTheForecastUses) {
  const Words both{"--model.name=opt-125m",
                   "--training.global-batch=16",
                   "--training.length=256",
                   "--pool=A100-40@us-east1-b=2",
                   "--pool=A100-40@europe-west4-a=2",
                   "--plan.data=4",
                   "--plan.tensor=1",
                   "--plan.pipeline=1"};
  const double assumed = seconds_of_two_zones(json(both));
  const double slow = seconds_of_two_zones(json(both + Words{"--link=us-east1-b:europe-west4-a=0.1Gbit/s,75ms"}));
  const double fast = seconds_of_two_zones(json(both + Words{"--link=us-east1-b:europe-west4-a=100Gbit/s,1ms"}));
  EXPECT_GT(slow, assumed);
  EXPECT_GT(assumed, fast);
  const double one_way = seconds_of_two_zones(
      json(both + Words{"--link=us-east1-b:europe-west4-a=100Gbit/s,1ms", "--link=europe-west4-a:us-east1-b=0.1Gbit/s,75ms"}));
  EXPECT_GT(one_way, fast);
  const auto file = folder_.write("links.toml", "[plan]\nlink = [\"us-east1-b:europe-west4-a=100Gbit/s,1ms\", \"x:y=1Gbit/s\"]\n");
  EXPECT_DOUBLE_EQ(seconds_of_two_zones(json(both + Words{file})), fast);  // a site's list may name other zones
}

TEST_F(Plan, LinksAreRefusedWithTheLineToWrite) {
  const std::pair<const char*, const char*> cases[] = {{"us-east1-b:us-east1-b", "expected FROM:TO=BANDWIDTH[,LATENCY]"},
                                                       {"us-east1-b=1Gbit/s", "expected FROM:TO=BANDWIDTH[,LATENCY]"},
                                                       {"us-east1-b:europe-west4-a", "expected FROM:TO=BANDWIDTH[,LATENCY]"},
                                                       {"us-east1-b:europe-west4-a=10", "expected a bandwidth above 0 with its unit"},
                                                       {"us-east1-b:europe-west4-a=0Gbit/s", "expected a bandwidth above 0 with its unit"},
                                                       {"us-east1-b:europe-west4-a=1Gbit/s,20", "expected a latency with its unit"},
                                                       {"us-east1-b:europe-west4-b=1Gbit/s", "did you mean 'europe-west4-a'?"}};
  for (const auto& [word, part] : cases) expect_refused(far_apart + Words{"--link", word}, 64, part);
  const Words twice{"--link=us-east1-b:europe-west4-a=1Gbit/s", "--link=us-east1-b:europe-west4-a=2Gbit/s"};
  expect_refused(far_apart + twice, 64, "is given twice");
  expect_refused(small_ + Words{"--link=a:b=1Gbit/s"}, 64, "one zone without a name");
}

/// Cases c24 and c23 of real sites (shared/cases/sites): what follows is each case's command, with fewer devices.
const Words a_partition{"--model.name=opt-125m", "--training.global-batch=64", "--training.length=256", "--pool=RTX-A6000@a40=32/8",
                        "--plan.tensor=1",       "--plan.pipeline=1",          "--plan.data=32"};

TEST_F(Plan, TheNetworkInsideAZoneCanBeSaid) {
  const auto usual = json(a_partition);
  ASSERT_EQ(usual.at("assumed_networks").size(), 1u);
  EXPECT_EQ(usual.at("assumed_networks").items()[0].get_string("type"), "RTX-A6000");
  EXPECT_EQ(run(a_partition), 0);
  EXPECT_NE(out_.find("network    assumed: 1 x 90Gbit/s for a node of RTX-A6000 @ a40; --nic says"), std::string::npos) << out_;
  const auto told = json(a_partition + Words{"--link=a40:a40=25Gbit/s"});
  EXPECT_EQ(told.at("assumed_networks").size(), 0u);
  EXPECT_GT(seconds_of_two_zones(told), seconds_of_two_zones(usual));
  const auto seconds = [&](const Words& more) { return seconds_of_two_zones(json(a_partition + more)); };
  EXPECT_LT(seconds({"--nic=RTX-A6000@a40=4x100Gbit/s"}), seconds_of_two_zones(usual));
  EXPECT_EQ(seconds({"--nic=rtx a6000=100Gbit/s"}), seconds_of_two_zones(usual));
  EXPECT_EQ(seconds({"--nic=RTX-A6000@a40=50Gbit/s"}), seconds({"--nic=RTX-A6000=100Gbit/s", "--oversubscription=a40=2:1"}));
  EXPECT_EQ(seconds({"--oversubscription=2"}), seconds({"--oversubscription=a40=2:1"}));
}

TEST_F(Plan, AnAssumedNetworkWidensTheBarAndASaidOneNarrowsIt) {
  const auto bar = [&](const Words& more) { return json(a_partition + more).at("forecast").get_double("relative_error"); };
  const double assumed = bar({}), cards = bar({"--nic=RTX-A6000=100Gbit/s"}), link = bar({"--link=a40:a40=90Gbit/s"});
  EXPECT_GT(assumed, cards);
  EXPECT_GT(cards, link);
  EXPECT_GT(bar({"--nic=RTX-A6000=100Gbit/s", "--oversubscription=4:1"}), cards);
}

TEST_F(Plan, PartitionsAreNoFarZones) {
  const Words two{"--model.name=opt-125m", "--training.global-batch=16", "--training.length=256",
                  "--pool=A100-40@main=2", "--pool=A100-40@debug=2",     "--plan.data=4",
                  "--plan.tensor=1",       "--plan.pipeline=1"};
  const auto d = json(two);
  EXPECT_EQ(d.at("assumed_links").items()[0].get_string("distance"), "cluster");
  EXPECT_NE(err_.find("debug:main=1440Gbit/s,1ms (taken for one cluster)"), std::string::npos) << err_;
  EXPECT_LT(seconds_of_two_zones(d), seconds_of_two_zones(json(two + Words{"--link=main:debug=6.4Gbit/s,20ms"})));
  const auto slower = json(two + Words{"--nic=A100-40@debug=25Gbit/s"});
  EXPECT_LT(seconds_of_two_zones(d), seconds_of_two_zones(slower));
}

TEST_F(Plan, NetworksAreRefusedWithTheLineToWrite) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"--link", "a40:a40=25", "expected a bandwidth above 0 with its unit"},
      {"--nic", "RTX-A6000@a40", "expected TYPE[@ZONE]=[CARDSx]BANDWIDTH; write for example --nic A100-80@gpu=2x200Gbit/s"},
      {"--nic", "RTX-A6000=0x25Gbit/s", "expected 1 to 999 network cards"},
      {"--nic", "RTX-A6000=9999x25Gbit/s", "expected 1 to 999 network cards"},
      {"--nic", "RTX-A6000=2x25", "expected a bandwidth above 0 with its unit"},
      {"--nic", "H100=2x25Gbit/s", "the pool has no 'H100'"},
      {"--nic", "RTX-A6000@a41=25Gbit/s", "did you mean 'RTX-A6000@a40'?"},
      {"--oversubscription", "a41=2:1", "did you mean 'a40'?"},
      {"--oversubscription", "0.5:1", "expected a ratio from 1:1 to 100:1"},
      {"--oversubscription", "a40=2:3", "expected a ratio from 1:1 to 100:1"}};
  for (const auto& [option, word, part] : cases) expect_refused(a_partition + Words{option, word}, 64, part);
  const Words link{"--link=a40:a40=25Gbit/s"};
  expect_refused(a_partition + link + Words{"--nic=RTX-A6000@a40=25Gbit/s"}, 64, "--link a40:a40 says what a node gets there");
  expect_refused(a_partition + link + Words{"--oversubscription=a40=2:1"}, 64, "--link a40:a40 says what a node gets there");
  expect_refused(a_partition + Words{"--nic=RTX-A6000=25Gbit/s", "--nic=rtx-a6000=1Gbit/s"}, 64, "are given twice");
  expect_refused(a_partition + Words{"--oversubscription=a40=2", "--oversubscription=a40=4"}, 64, "is given twice");
  const auto file = folder_.write("site.toml", "[plan]\nnic = [\"H100=2x25Gbit/s\"]\noversubscription = [\"far=2:1\"]\n");
  EXPECT_EQ(run(a_partition + Words{file}), 0) << err_;  // a site's list may name other types and zones
}

const Words old_and_new{"--model.name=gpt2", "--training.global-batch=256", "--pool=V100-32=8/4", "--pool=L4=1/1"};

TEST_F(Plan, WhatTheWholePoolReachesInFp16IsSaid) {
  EXPECT_EQ(run(old_and_new + Words{"--training.precision=bf16", "--explain"}), 0) << err_;
  EXPECT_NE(err_.find("V100-32 has no bf16 and cannot take part; --training.precision auto"), std::string::npos) << err_;
  EXPECT_NE(out_.find("V100-32 has no bf16: in fp16 the pool is "), std::string::npos) << out_;
  EXPECT_NE(out_.find(" times as fast"), std::string::npos) << out_;
  expect_refused({"--model.name=gpt2", "--training.global-batch=8", "--pool=V100-32=4/4", "--training.precision=bf16"}, 76,
                 "V100-32 has no bf16; it has fp16");
}

TEST_F(Plan, GpusOfTwoVendorsInOnePlanAreSaid) {
  const Words both{"--model.name=gpt2", "--training.global-batch=8", "--training.length=256", "--pool=MI210=2/2", "--pool=A100-80=2/2"};
  EXPECT_EQ(run(both), 0);
  EXPECT_NE(err_.find("MI210: Flotilla trains on CPUs and NVIDIA GPUs only"), std::string::npos) << err_;
  for (const char* type : {"MI250X", "MI300A", "MI100", "Max-1550", "Max-1100"}) {
    EXPECT_EQ(run({"--model.name=gpt2", "--training.global-batch=8", "--training.length=256", text("--pool=", type, "=2/2")}), 0) << type;
    EXPECT_NE(err_.find(text(type, ": Flotilla trains on CPUs and NVIDIA GPUs only")), std::string::npos) << err_;
  }
  EXPECT_EQ(run(both + Words{"--runtime=megatron-core"}), 0);
  EXPECT_NE(err_.find("MI210 (AMD), A100-80 (NVIDIA): no collective library joins GPUs of two vendors"), std::string::npos) << err_;
}

TEST_F(Plan, WherePrecisionIsLeftOpenTheBetterOneIsTaken) {
  const auto d = json(old_and_new);
  EXPECT_EQ(files::plan_from_json(d.at("plan")).precision, Precision::fp16);
  EXPECT_EQ(d.at("other_precision").get_string("precision"), "bf16");
  const double bf16 = seconds_of_two_zones(json(old_and_new + Words{"--training.precision=bf16"})),
               fp16 = seconds_of_two_zones(json(old_and_new + Words{"--training.precision=fp16"}));
  EXPECT_DOUBLE_EQ(d.at("other_precision").get_double("iteration_s", 0), bf16);
  EXPECT_DOUBLE_EQ(seconds_of_two_zones(d), fp16);
  EXPECT_EQ(run(old_and_new), 0);
  EXPECT_NE(out_.find(text("precision  fp16: the pool is ", formatted("%.1f", bf16 / fp16), " times as fast as in bf16")),
            std::string::npos)
      << out_;
  EXPECT_EQ(err_, "");
}

TEST_F(Plan, OneSearchWhereOnePrecisionIsEveryDevices) {
  const auto precision = [&](const char* pool) {
    const auto d = json({"--model.name=gpt2", "--training.global-batch=8", "--training.length=256", pool});
    EXPECT_TRUE(d.at("other_precision").is_null());
    return files::plan_from_json(d.at("plan")).precision;
  };
  EXPECT_EQ(precision("--pool=A100-40=4/4"), Precision::bf16);
  EXPECT_EQ(precision("--pool=T4=4/4"), Precision::fp16);
  EXPECT_EQ(precision("--pool=K80=4/4"), Precision::fp32);
}

TEST_F(Plan, APlanThatIsPlannedAgainKeepsItsPrecision) {
  ASSERT_EQ(run(small_ + Words{"--write-plan=" + path("before.json")}), 0) << err_;
  const auto again = json({"--model.name=opt-125m", "--training.global-batch=16", "--training.length=256", "--pool=A100-40=4/2",
                           "--replan.from=" + path("before.json")});
  EXPECT_EQ(files::plan_from_json(again.at("plan")).precision, Precision::fp32);
}

TEST_F(Plan, AZoneMayHaveItsOwnPrices) {
  const Words two_zones{"--model.name=opt-125m", "--training.global-batch=16", "--training.length=256", "--pool=A100-40@x=2",
                        "--pool=A100-40@y=2",    "--link=x:y=100Gbit/s,0.1ms", "--price=A100-40=3USD/h"};
  const Words in_x{"--price=A100-40@x=1USD/h", "--billing=A100-40=4units/h", "--billing=A100-40@y=8units/h"};
  const auto cheapest = json(two_zones + in_x + Words{"--objective.minimise=cost", "--limit.devices=2"});
  for (const auto& stage : files::plan_from_json(cheapest.at("plan")).stages)
    for (const auto& replica : stage.replicas) EXPECT_EQ(replica.zone, "x");
  const auto all = json(two_zones + in_x + Words{"--plan.data=4", "--plan.tensor=1"}).at("forecast");
  const double hours = all.get_double("iteration_seconds") / 3600;
  EXPECT_DOUBLE_EQ(all.get_double("device_usd"), (2 * 1 + 2 * 3) * hours);
  EXPECT_DOUBLE_EQ(all.get_double("billing_units"), (2 * 4 + 2 * 8) * hours);
  EXPECT_LE(json(two_zones + in_x + Words{"--limit.hourly-cost=5usd"}).at("forecast").get_double("device_usd"), 1e300);
  expect_refused(two_zones + Words{"--price=A100-40@z=1USD/h"}, 64, "no A100-40 are in a zone 'z'");
  expect_refused(two_zones + Words{"--price=A100-40@x=0USD/h"}, 64, "expected a price above 0 in a zone");
  EXPECT_EQ(run(two_zones + Words{"--price=T4@z=1USD/h"}), 0);  // a list serves any pool
}

TEST_F(Plan, AWholeRunIsSummedUp) {
  const auto run_of = [&](const Words& more) { return json(far_apart + more).at("run"); };
  EXPECT_TRUE(run_of({}).is_null());
  const auto steps = run_of({"--training.steps=1000"});
  EXPECT_EQ(steps.get_int64("iterations"), 1000);
  EXPECT_EQ(steps.get_int64("tokens"), 1000 * 16 * 256);
  const auto tokens = run_of({"--tokens=1B", "--training.steps=7"});
  EXPECT_EQ(tokens.get_int64("iterations"), 244'141);  // 1e9 / (16 x 256), rounded up
  const auto d = json(far_apart + Words{"--training.steps=1000"});
  const auto one = d.at("forecast"), all = d.at("run");
  EXPECT_DOUBLE_EQ(all.get_double("seconds"), 1000 * one.get_double("iteration_seconds"));
  EXPECT_DOUBLE_EQ(all.get_double("cost_usd"), 1000 * one.get_double("cost_per_iteration_usd"));
  EXPECT_DOUBLE_EQ(all.get_double("device_hours"), all.get_double("seconds") / 3600 * one.get_int("devices"));
  run(far_apart + Words{"--tokens=1B"});
  EXPECT_NE(out_.find("\nrun        244141 iterations, 1B tokens: "), std::string::npos) << out_;
  for (const char* bad : {"0", "-1", "1e30", "7x", "B"})
    expect_refused(far_apart + Words{text("--tokens=", bad)}, 64, "write for example 300B");
}

TEST_F(Plan, AWholeRunHasLimits) {
  const Words run_of = far_apart + Words{"--training.tokens=1B"};
  const auto fastest = json(run_of).at("run");
  const double cost = fastest.get_double("cost_usd"), time = fastest.get_double("seconds");
  const auto cheaper = json(run_of + Words{text("--limit.run-cost=", 0.9 * cost, "usd")}).at("run");
  EXPECT_LE(cheaper.get_double("cost_usd"), 0.9 * cost * (1 + 1e-9));
  EXPECT_GE(cheaper.get_double("seconds"), time);
  const auto in_time = json(run_of + Words{"--objective.minimise=cost", text("--limit.run-time=", 1.2 * time, "s")}).at("run");
  EXPECT_LE(in_time.get_double("seconds"), 1.2 * time * (1 + 1e-9));
  EXPECT_LE(in_time.get_double("cost_usd"), cost * (1 + 1e-9));
  EXPECT_EQ(run(run_of + Words{text("--limit.run-time=", 0.1 * time, "s")}), 76) << "nothing is that fast";
  for (const char* limit : {"--limit.run-time=20h", "--limit.run-cost=1500usd"})
    expect_refused(far_apart + Words{limit}, 64, "how long is the run? write --training.tokens 15B");
  expect_refused(run_of + Words{"--max-cost=3usd"}, 64, "did you mean '--limit.run-cost'");
  const auto meant = [&](std::initializer_list<const char*> theirs, const std::string& ours) {
    for (const char* word : theirs) expect_refused(run_of + Words{word}, 64, "did you mean '" + ours + "'");
  };
  meant({"--deadline=3h", "--run-time=3h", "--walltime=3h", "--max-duration=3h"}, "--limit.run-time");
  meant({"--max-budget=3usd", "--cost-limit=3usd"}, "--limit.run-cost");
  meant({"--total-tokens=3B", "--max-tokens=3B"}, "--training.tokens");
}

TEST_F(Plan, ExplainsIdleDevicesAndOneMoreNode) {
  const auto plain = json(far_apart);
  for (const char* key : {"idle", "one_more_node", "pareto"}) EXPECT_TRUE(plain.at(key).is_null()) << key;
  const auto d = json(far_apart + Words{"--explain", "--training.steps=1000"});
  std::int64_t idle = 0;
  for (const auto& devices : d.at("idle").items()) {
    EXPECT_FALSE(devices.get_string("reason").empty());
    idle += devices.get_int("devices");
  }
  EXPECT_EQ(idle + d.at("forecast").get_int("devices"), 8);
  ASSERT_EQ(d.at("one_more_node").size(), 2u);
  for (const auto& more : d.at("one_more_node").items()) {
    EXPECT_EQ(more.get_int("devices"), 2);
    EXPECT_LE(more.at("best").get_double("iteration_seconds"), d.at("forecast").get_double("iteration_seconds") * (1 + 1e-9));
  }
  EXPECT_EQ(files::planning_to_json(files::planning_from_json(d)), out_);
  run(far_apart + Words{"--explain", "--training.steps=1000"});
  EXPECT_NE(out_.find("\none more node "), std::string::npos) << out_;
  EXPECT_EQ(out_.find("--explain says why"), std::string::npos) << out_;
}

TEST_F(Plan, ADeviceThatALimitForbidsIsSaidSo) {
  const auto d = json(small_ + Words{"--limit.devices=2", "--explain"});
  EXPECT_NE(d.one_line().find("a plan with"), std::string::npos);
  run(small_ + Words{"--limit.devices=2"});
  EXPECT_NE(out_.find("\nidle       some devices; --explain says why"), std::string::npos) << out_;
}

TEST_F(Plan, TimeAgainstCostIsAFront) {
  const auto d = json(far_apart + Words{"--pareto"});
  const auto points = d.at("pareto").items();
  ASSERT_GE(points.size(), 2u);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GT(points[i].get_double("iteration_seconds"), points[i - 1].get_double("iteration_seconds"));
    EXPECT_LT(points[i].get_double("cost_per_iteration_usd"), points[i - 1].get_double("cost_per_iteration_usd"));
  }
  EXPECT_LE(points.front().get_double("iteration_seconds"), d.at("forecast").get_double("iteration_seconds") * (1 + 1e-9));
  run(far_apart + Words{"--pareto"});
  EXPECT_NE(out_.find("\ntime against cost "), std::string::npos) << out_;
  EXPECT_NE(out_.find("(this plan)"), std::string::npos) << out_;
  expect_refused(small_ + Words{"--pareto"}, 65, "no price above 0 is known of A100-40");
}

TEST_F(Plan, NoSmallerPoolHoldsTheModelThanTheOneNamed) {
  struct TooSmall {
    const char *model, *type;
    int devices;
  };
  for (const auto& c : {TooSmall{"opt-13b", "A100-40", 1}, TooSmall{"opt-6.7b", "T4", 3}}) {
    const auto code = [&](int times) {
      return run({text("--model.name=", c.model), "--training.global-batch=8", text("--pool=", c.type, "=", c.devices * times, "/1")});
    };
    EXPECT_EQ(code(1), 76);
    const std::string before = "a pool ";
    const auto at = err_.find(before);
    ASSERT_NE(at, std::string::npos) << err_;
    const int times = std::stoi(err_.substr(at + before.size()));
    EXPECT_EQ(code(times), 0) << err_;
    EXPECT_EQ(code(times - 1), 76) << times;
  }
}

TEST_F(Plan, StagesThatShareDevicesAndSequenceParallelismAreTold) {
  plan::Plan plan;
  plan.schedule = plan::ScheduleKind::interleaved;
  plan.stages.resize(8);
  plan.chunks = 2;
  EXPECT_EQ(schedule_in_words(plan), "interleaved (2 stages a device: 0 and 4, ...)");
  plan.sequence_parallel = true;
  EXPECT_EQ(schedule_in_words(plan), "interleaved (2 stages a device: 0 and 4, ...), sequence parallel");
  EXPECT_EQ(schedule_in_words({}), "1f1b");
}

TEST_F(Plan, AWideGapIsNotToldAsASmallOne) {
  run(small_ + Words{"--format=json"});
  auto planning = files::planning_from_json(out_, "stdout");
  planning.answer.bound_gap = 0.97, planning.answer.finished = false;
  const auto words = planning_text(planning, Style{}, 120);
  EXPECT_NE(words.find(" up to 34 times better\n"), std::string::npos) << words;
}

TEST_F(Plan, RestrictionsAreKeptAndTold) {
  const auto d = json(small_ + Words{"--restrict=one-device-type,even-layers"});
  EXPECT_EQ(d.at("restrictions").one_line(), "[\"even-layers\", \"one-device-type\"]");
  const auto plan = files::plan_from_json(d.at("plan"));
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) EXPECT_EQ(replica.device_type, plan.stages[0].replicas[0].device_type);
  run(small_ + Words{"--restrict=one-device-type,even-layers"});
  EXPECT_NE(out_.find("\nrestrict   even-layers, one-device-type\n"), std::string::npos) << out_;
}

/// As the help of --plan.shard-optimizer says.
TEST_F(Plan, OptimizersAreShardedWhereThatIsFaster) {
  const Words job{"--model.name=gpt2", "--training.global-batch=16", "--pool=A100-40=16/4", "--training.precision=fp16"};
  const auto chosen = json(job), whole = json(job + Words{"--plan.shard-optimizer=false"});
  EXPECT_TRUE(files::plan_from_json(chosen.at("plan")).shard_optimizer);
  EXPECT_LT(chosen.at("forecast").get_double("iteration_seconds"), whole.at("forecast").get_double("iteration_seconds"))
      << "it would fit without, and takes longer";
}

TEST_F(Plan, HowAPlanRunsCanBeFixed) {
  const auto plan_with = [&](const Words& more) { return files::plan_from_json(json(small_ + more).at("plan")); };
  EXPECT_EQ(plan_with({"--plan.chunks=2"}).chunks, 2);
  EXPECT_EQ(plan_with({"--plan.schedule=zero-bubble"}).schedule, plan::ScheduleKind::zero_bubble);
  EXPECT_TRUE(plan_with({"--plan.shard-optimizer"}).shard_optimizer);
  EXPECT_TRUE(plan_with({"--plan.sequence-parallel"}).sequence_parallel);
  const auto file = folder_.write("job.toml", "[plan]\nschedule = \"gpipe\"\nrecompute = \"full\"\n");
  run(small_ + Words{file});
  EXPECT_NE(out_.find("gpipe"), std::string::npos) << out_;
  EXPECT_EQ(err_, "");
  const auto recomputed = plan_with({file});
  EXPECT_EQ(recomputed.schedule, plan::ScheduleKind::gpipe);
  for (const auto& stage : recomputed.stages) EXPECT_EQ(stage.recompute, plan::Recompute::full);
  const auto split = plan_with({"--plan.pipeline=2", "--plan.microbatch=2"});
  EXPECT_EQ(split.stages.size(), 2u);
  for (const auto& replica : split.stages[0].replicas) EXPECT_EQ(replica.quanta * split.quantum, 2);
  for (const auto& replica : plan_with({"--plan.tensor=2"}).stages[0].replicas) EXPECT_EQ(replica.tensor_parallel, 2);
  EXPECT_EQ(plan_with({"--plan.data=3"}).stages[0].replicas.size(), 3u);
  expect_refused(small_ + Words{"--plan.chunks=2", "--plan.schedule=1f1b"}, 64,
                 "--plan.chunks 2: several stages per device need --plan.schedule interleaved");
  expect_refused(small_ + Words{"--plan.schedule=backward"}, 64, "1f1b, gpipe, interleaved, zero-bubble");
  expect_refused(small_ + Words{"--plan.sequence-parallel", "--runtime=megatron-deepspeed", "--plan.schedule=zero-bubble"}, 76, "");
}

TEST_F(Plan, ATimeLimitIsKeptAndTold) {
  // So short that it is over when it begins: what is found until the planner asks is all there is.
  const Words hasty{"--model.name=opt-125m", "--training.global-batch=64", "--pool=A100-40=32", "--pool=V100-16=32",
                    "--search.time-limit=1ns"};
  const int code = run(hasty + Words{"--format=json"});
  const auto d = files::Json::parse(out_, "stdout");
  EXPECT_FALSE(d.get_bool("finished"));
  EXPECT_TRUE(d.get_bool("cut_off"));
  if (code == 0) {
    run(hasty);
    EXPECT_NE(out_.find("\nsearch     cut off after "), std::string::npos) << out_;
  } else {
    EXPECT_EQ(code, 76);
    EXPECT_TRUE(d.at("plan").is_null());
    EXPECT_NE(err_.find("cut off after"), std::string::npos) << err_;
    EXPECT_NE(err_.find("(--search.time-limit 1ns)"), std::string::npos) << err_;
  }
  EXPECT_FALSE(json(small_ + Words{"--search.time-limit=1h"}).get_bool("cut_off"));
  if (run(hasty + Words{"--explain"}) == 0) {
    EXPECT_NE(err_.find("was over before all was explained"), std::string::npos) << err_;
  }
}

TEST(SearchTimeLimit, IsForAllSearchesTogether) {
  Seconds clock{};
  PlanningTask task;
  EXPECT_EQ(task.next_limit().value, 0) << "there is none";
  task.time = std::make_shared<TimeShares>(Seconds{9}, std::vector<double>{1, 1, 1}, [&] { return clock; });
  const PlanningTask other = task;  // as for another precision
  EXPECT_DOUBLE_EQ(task.next_limit().value, 3);
  clock += Seconds{1};
  EXPECT_DOUBLE_EQ(other.next_limit().value, 4) << "the first has left two seconds";
  clock += Seconds{20};
  const auto last = task.next_limit();
  EXPECT_GT(last.value, 0) << "0 would be none";
  EXPECT_LT(last.value, 1e-6);
}

TEST_F(Plan, AlternativesAreAsManyAsAsked) {
  EXPECT_EQ(json(small_ + Words{"--search.alternatives=0"}).at("alternatives").size(), 0u);
  EXPECT_LE(json(small_ + Words{"--search.alternatives=2"}).at("alternatives").size(), 2u);
  run(small_ + Words{"--search.alternatives=0"});
  EXPECT_EQ(out_.find("next best"), std::string::npos) << out_;
}

TEST_F(Plan, PlansAgainFromTheOneThatRuns) {
  json(small_ + Words{"--write-plan", path("old.json")});
  const auto d = json(Words{"--model.name=opt-125m", "--training.global-batch=16", "--training.length=256", "--pool=A100-40=4/2",
                            "--pool=V100-16=2/2", "--replan.from", path("old.json"), "--replan.within=5%"});
  EXPECT_GE(d.get_int64("moved_bytes"), 0);
  EXPECT_EQ(run(small_ + Words{"--replan.from", path("old.json"), "--replan.within=50%"}), 0);  // the old plan is as good
  EXPECT_NE(out_.find("\nmoves      nothing: every device already stores what it needs\n"), std::string::npos) << out_;
  run(small_);
  EXPECT_EQ(out_.find("\nmoves "), std::string::npos) << out_;
  EXPECT_EQ(run(small_ + Words{"--replan.within=5%"}), 0);
  EXPECT_NE(err_.find("name the running plan: --replan.from PLAN"), std::string::npos) << err_;
  expect_refused(small_ + Words{"--replan.from", path("none.json")}, 66, "none.json");
  folder_.write("broken.json", "{}");
  expect_refused(small_ + Words{"--replan.from", path("broken.json")}, 65, "broken.json");
}

TEST_F(Plan, NothingFitsIs76WithOneLineAndNothingWritten) {
  const Words hopeless{
      "--model.name=opt-66b", "--training.global-batch=8", "--pool=V100-16=1", "--write-plan", path("plan.json"), "-o", path("out")};
  expect_refused(hopeless, 76, "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "plan.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  EXPECT_EQ(run(hopeless + Words{"--format=json"}), 76);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "plan.json"));
  const auto planning = files::planning_from_json(content(folder_ / "out"), "out");
  EXPECT_FALSE(planning.answer.best);
  EXPECT_FALSE(planning.forecast);
  EXPECT_EQ("flotilla: error: " + planning.answer.no_plan_reason + "\n", err_);
  EXPECT_EQ(files::planning_to_json(planning), content(folder_ / "out"));
  testing::internal::CaptureStdout();
  EXPECT_EQ(inspect(Words{path("out")}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout().rfind("no plan    ", 0), 0u);
  expect_refused(small_ + Words{"--limit.iterations-per-second=1e9"}, 76, "");
}

TEST_F(Plan, RefusesWithOneLineThatHelps) {
  const Words pool{"--pool=A100-40=4"}, job{"--model.name=opt-125m", "--training.global-batch=16"};
  expect_refused(job, 64, "no devices to plan for; write for example --pool A100-40@us-central1-a=32/4");
  expect_refused(pool + Words{"--training.global-batch=16"}, 64, "write for example --model.name opt-350m");
  expect_refused(pool + Words{"--model.name=opt-125m"}, 64, "write for example --training.global-batch 1024");
  expect_refused(pool + Words{"--model.name=opt-125", "--training.global-batch=16"}, 64, "--model.name opt-125: ");
  expect_refused(pool + job + Words{"--training.length=4096"}, 64, "--training.length 4096: longer than the 2048 positions");
  expect_refused(job + Words{"--pool=A100-41=4"}, 64, "did you mean 'A100-40'");
  expect_refused(job + Words{"--pool=A100-40=0"}, 64, "--pool A100-40=0: ");
  expect_refused(job + pool + Words{"--objective.maximise=throughput", "--objective.minimise=cost"}, 64,
                 "--objective.minimise cost: conflicts with objective.maximise throughput; keep one");
  expect_refused(job + pool + Words{"--objective.minimise=cots"}, 64, "write --objective.minimise cost");
  expect_refused(job + pool + Words{"--pool=V100-16=4", "--objective.minimise=cost"}, 65,
                 "--objective.minimise cost: no price above 0 is known of A100-40, V100-16; write for example --price A100-40=2.50USD/h");
  expect_refused(job + pool + Words{"--objective.minimise=billing", "--price=A100-40=3USD/h"}, 65, "--billing A100-40=16units/h");
  expect_refused(job + pool + Words{"--limit.hourly-cost=3usd"}, 65, "--limit.hourly-cost 3usd: no price above 0 is known of A100-40; ");
  expect_refused(job + pool + Words{"--cost-model=sailor-artifact"}, 64, "--profiles FILE");
  expect_refused(job + pool + Words{"--limit.iteration-cost=1.2"}, 64, "write --limit.iteration-cost 1.2usd");
  expect_refused(job + pool + Words{"--limit.hourly-cost=0usd"}, 64, "above 0usd");
  expect_refused(job + pool + Words{"--limit.devices=0"}, 64, "at least 1");
  expect_refused(job + pool + Words{"--search.tolerance=1"}, 64, "write --search.tolerance 1%");
  expect_refused(job + pool + Words{"--search.time-limit=10"}, 64, "write --search.time-limit 10s");
  expect_refused(job + pool + Words{"--restrict=equal-replica"}, 64, "did you mean 'equal-replicas'?");
  expect_refused(job + pool + Words{"--runtime=megatron-deepsped"}, 64, "megatron-deepspeed");
  expect_refused(job + pool + Words{"--price=A100-41=3USD/h"}, 64, "--price A100-41=3USD/h: no such device type: 'A100-41'; did you");
  expect_refused(job + pool + Words{"a.toml", "b.toml"}, 64, "expected one job file at most, got 2");
  expect_refused(job + pool + Words{"--profiles", path("none.json")}, 66, "none.json");
  expect_refused(job + pool + Words{path("none.toml")}, 66, "none.toml");
  expect_refused(job + pool + Words{"-o", "/nowhere/at/all"}, 69, "/nowhere/at/all");
}

/// The plan's file names what its forecast rests on, so that nothing has to be said again: to the last digit.
TEST_F(Plan, ItsFileAloneHasItsForecast) {
  const Words job{"--model.name=opt-125m", "--training.global-batch=16", "--write-plan", path("plan.json")};
  for (const Words& more : {Words{"--pool=A100-40=8/8", "--pool=V100-16=4/1"},
                            Words{"--pool=A100-40@a=4/2", "--pool=A100-40@b=4/2", "--runtime=megatron-core", "--link=a:b=10Gbit/s,20ms",
                                  "--nic=A100-40=2x200Gbit/s", "--oversubscription=2:1"},
                            Words{"--pool=V100-16=4/4", "--data.documents=separate", "--price=V100-16=3USD/h"}}) {
    const auto planned = json(job + more).at("forecast").one_line();
    EXPECT_EQ(files::Json::parse(simulated(Words{path("plan.json"), "--format=json"}), "simulate").one_line(), planned);
    const auto nearer = files::Json::parse(simulated(Words{path("plan.json"), "--format=json", "--runtime=flotilla"}), "simulate");
    EXPECT_EQ(nearer.get_string("runtime"), "flotilla") << "what is said goes first";
  }
  auto lies = files::read_text(path("plan.json"));
  lies.replace(lies.find("\"runtime\""), 9, "\"timeline\"");
  files::write_text(path("lies.json"), lies);
  tests::expect_refused([&] { simulate(Words{path("lies.json")}); }, "lies.json: /forecast/simulate", "unknown key 'timeline'");
}

/// A vocabulary, or feed-forward columns, of fewer than there are heads: no degree above the units of any tensor, whoever chooses it.
TEST_F(Plan, NoDegreeIsAboveATensorsUnits) {
  for (const char* few : {R"("vocab_size": 1)", R"("vocab_size": 3)", R"("n_inner": 1)"}) {
    files::write_text(path("few.json"),
                      text(R"({"model_type": "gpt2", "n_embd": 48, "n_head": 4, "n_layer": 2, "n_positions": 64, )", few, "}"));
    for (const Words& more : {Words{}, Words{"--runtime=megatron-core"}, Words{"--pool=A100-40@b=8/8"}, Words{"--limit.devices=1"}}) {
      EXPECT_EQ(run(Words{"--model.config=" + path("few.json"), "--pool=V100-16=4/4", "--training.global-batch=8", "--training.length=32",
                          "--format=json"} +
                    more),
                0)
          << err_;
    }
  }
}

/// Mixtral on two types: a plan whose every device holds its share of all experts, forecast as simulate does.
TEST_F(Plan, ModelsWithExpertsHavePlansOnMixedPools) {
  const Words job{"--model.name=mixtral-8x7b", "--training.global-batch=64", "--training.length=2048", "--training.precision=bf16"};
  const Words pool{"--pool=H100-80=16/8", "--pool=A100-80=16/8"};
  ASSERT_EQ(run(job + pool + Words{"--write-plan=" + path("plan.json")}), 0) << err_;
  EXPECT_NE(out_.find("46.7 billion parameters, 12.9 billion active"), std::string::npos) << out_;
  EXPECT_NE(out_.find("H100-80"), std::string::npos) << out_;
  const auto plan = files::read_plan(path("plan.json"));
  EXPECT_EQ(plan.model, model::built_in("mixtral-8x7b"));
  const Words simulation = Words{path("plan.json"), "--format=json"} + pool;
  const auto forecast = files::Json::parse(simulated(simulation), "stdout");
  EXPECT_GT(forecast.get_double("iteration_seconds"), 0);
  // Of 64 sequences, 6 FLOPs an active parameter and token: no less than at the peak of all 32 devices.
  EXPECT_GT(forecast.get_double("iteration_seconds"), 6 * 12.8e9 * 64 * 2048 / (16 * 989e12 + 16 * 312e12));
  simulated(Words{path("plan.json"), "--runtime=flotilla"} + pool);
  EXPECT_EQ(run(Words{"--model.name=mixtral-8x7b", "--training.global-batch=64", "--training.length=2048", "--training.precision=bf16",
                      "--pool=A100-40=4"}),
            76);
}

/// The same model where Megatron-Core shares experts among replicas, as many as divide both or as many as it is told.
TEST_F(Plan, DescribedRuntimesShareExpertsAmongReplicas) {
  auto plan = plan::even_plan(model::built_in("mixtral-8x7b"), 2048, 64, Precision::bf16, 8, 4, 1, 1);
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.devices.clear(), replica.device_type = "H100-80";
  plan.shard_optimizer = true;
  files::write_plan(folder_ / "plan.json", plan);
  const auto bytes = [&](const Words& more) {
    const Words all = Words{path("plan.json"), "--format=json", "--runtime=megatron-core", "--pool=H100-80=32/8"} + more;
    return files::Json::parse(simulated(all), "stdout").get_double("peak_memory_bytes");
  };
  // 8 blocks a stage of 8 experts, weights and gradients of 6 bytes: a group of g replicas holds 1 / g of them, and shards the rest alike.
  const double experts = 8.0 * 8 * 3 * 4096 * 14336 * 6;
  EXPECT_NEAR(bytes({"--expert-parallel=2"}) - bytes({"--expert-parallel=8"}), experts * (1.0 / 2 - 1.0 / 8), 0.01 * experts);
  EXPECT_EQ(bytes({}), bytes({"--expert-parallel=8"}));
  const auto refused = [&](const Words& more, const char* what) {
    const auto error = tests::error_of([&] { simulate(Words{path("plan.json"), "--pool=H100-80=32/8"} + more); });
    EXPECT_NE(std::string{error.what()}.find(what), std::string::npos) << error.what();
  };
  refused({"--runtime=megatron-core", "--expert-parallel=3"}, "among 3 replicas; expected a divisor of the 8 experts");
  refused({"--expert-parallel=2"}, "write --runtime megatron-core");
  EXPECT_EQ(run({"--model.name=qwen3-30b-a3b", "--training.global-batch=64", "--training.length=2048", "--training.precision=bf16",
                 "--pool=H100-80=32/8", "--runtime=megatron-core", "--expert-parallel=8"}),
            0)
      << err_;
}

TEST_F(Plan, AJobFileSaysTheSame) {
  const auto file = folder_.write("job.toml", R"([model]
name = "opt-125m"
[data]
train = ["text.txt"]
[training]
global-batch = 16
length = 256
steps = 7
[plan]
pool = ["A100-40=4/2", "V100-16=4/2"]
restrict = ["even-layers"]
[objective]
minimise = "cost"
[limit]
iteration-cost = "100usd"
[search]
tolerance = "1%"
)");
  const auto o = read_planning_options(Words{file, "--limit.devices=6", "--objective.maximise=throughput"},
                                       Words{"FLOTILLA_TRAINING_LENGTH=128", "FLOTILLA_TRAINING_SEED=4"});
  EXPECT_EQ(o.model.name, "opt-125m");
  EXPECT_EQ(o.global_batch, 16);
  EXPECT_EQ(o.length, 128);
  EXPECT_EQ(o.pool.size(), 2u);
  EXPECT_EQ(o.restrict, Words{"even-layers"});
  const auto objective = objective_of(o, 0);
  EXPECT_EQ(objective.goal, search::Goal::throughput);  // the command line beats the file
  EXPECT_EQ(objective.limits.usd_per_iteration, 100);
  EXPECT_EQ(objective.limits.devices, 6);
  EXPECT_EQ(o.tolerance, Share{0.01});
  EXPECT_EQ(objective_of(read_planning_options(Words{file}, Words{}), 0).goal, search::Goal::cost);
}

TEST_F(Plan, OneJobFileServesTrainingToo) {
  const auto file = folder_.write("job.toml", "[training]\nsteps = 7\n[plan]\ntensor = 2\n");
  testing::internal::CaptureStderr();
  const auto o = read_planning_options(Words{file, "--pool=A100-40=4"}, Words{});
  const auto warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(warning, "");
  EXPECT_EQ(o.steps, 7);
  EXPECT_EQ(constraints_of(o).tensor, 2);
  const Job job;
  EXPECT_EQ(o.model.name, job.model.name);  // what training would take
  EXPECT_EQ(o.global_batch, job.training.global_batch);
  expect_refused({file, "--training.warmup-steps=7"}, 64, "unknown option '--training.warmup-steps");
  expect_refused({folder_.write("typo.toml", "[limit]\ndevice = 3\n")}, 65,
                 "typo.toml:2:1: unknown key 'limit.device'; did you mean [limit] devices?");
  expect_refused({folder_.write("zero.toml", "[plan]\npool = [\"A100-40=0\"]\n")}, 65, "zero.toml:2:8: plan.pool = A100-40=0: ");
}

TEST_F(Plan, TheDevicesOfAProfileAreThePool) {
  auto profile = fixture::uniform_cluster(2, 2, fixture::device_type("A", 50, 10));
  fixture::measure(profile, model::built_in("gpt2-mini"), 64, Precision::fp32, {1, 2}, {1, 2, 4});
  files::write_profile(folder_ / "cluster.json", profile);
  const auto d = json({"--profiles", path("cluster.json"), "--model.name=gpt2-mini", "--training.global-batch=16", "--training.length=64"});
  ASSERT_EQ(d.at("pool").size(), 1u);
  EXPECT_EQ(d.at("pool").items()[0].get_int("count"), 4);
  EXPECT_EQ(d.at("pool").items()[0].get_int("devices_per_node"), 2);
  EXPECT_EQ(err_, "");
  // One host, of which no link to another was measured.
  auto alone = fixture::uniform_cluster(1, 2, fixture::device_type("A", 50, 10));
  fixture::measure(alone, model::built_in("gpt2-mini"), 64, Precision::fp32, {1, 2}, {1, 2, 4});
  std::erase_if(alone.links, [](const auto& link) { return link.level != cluster::LinkLevel::node; });
  files::write_profile(folder_ / "host.json", alone);
  json({"--profiles", path("host.json"), "--model.name=gpt2-mini", "--training.global-batch=16", "--training.length=64"});
  profile.devices.clear();
  files::write_profile(folder_ / "library.json", profile);
  expect_refused({"--profiles", path("library.json"), "--model.name=gpt2-mini", "--training.global-batch=16"}, 64,
                 "library.json lists no devices");
}

TEST_F(Plan, ALibrarysOnlyModelIsMeant) {
  files::Library library;
  library.models = {model::built_in("gpt2-tiny")};
  library.models[0].name = "Two-Blocks";
  files::write_library(folder_ / "library.json", library);
  const auto d = json({"--profiles", path("library.json"), "--training.global-batch=4", "--pool=V100-16=2"});
  EXPECT_EQ(d.at("plan").at("model").get_string("name"), "Two-Blocks");
}

TEST_F(Plan, EveryKeyIsDocumentedAndTheExampleReads) {
  const std::filesystem::path tree{FLOTILLA_SOURCE};
  const auto page = content(tree / "docs/formats/planning.md");
  const auto elsewhere = content(tree / "docs/formats/plan.md") + content(tree / "docs/formats/forecast.md");
  expect_documented(page + elsewhere, json(small_));
  for (const auto& key : files::Json::parse(out_, "stdout").keys()) EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
  EXPECT_TRUE(files::planning_from_json(tests::json_block(page), "the page").answer.best);
}

TEST_F(Plan, EveryOptionIsOnThePage) {
  PlanningOptions o;
  const auto page = content(std::filesystem::path{FLOTILLA_SOURCE} / "docs/planning.md");
  for (const auto& setting : planning_table(o).settings()) {
    const bool elsewhere = setting.section == "output" || setting.section == "training";
    const std::string spelled = "--" + (setting.alias.empty() ? setting.name : setting.alias);
    if (!elsewhere) {
      EXPECT_NE(page.find(spelled), std::string::npos) << spelled;
    }
  }
}

TEST_F(Plan, ThePublishedPoolUnderBothCostModels) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/profiles");
  import_published(Words{"sailor-profiles", tests::published_data("sailor").string(), "-o", path("library.json"), "--log-level", "error"});
  for (const char* cost_model : {"program", "sailor-artifact"}) {
    const Words basis{"--profiles", path("library.json"), "--cost-model", cost_model};
    const auto d = json(basis + Words{"--model.name=OPT-350", "--training.global-batch=1024", "--pool=A100-40@us-central1-a=16/4",
                                      "--objective.maximise=throughput", "--write-plan", path("plan.json")});
    const auto same = files::Json::parse(simulated(Words{path("plan.json"), "--format=json"} + basis), "simulate");
    EXPECT_EQ(d.at("forecast").one_line(), same.one_line());
    EXPECT_GT(d.at("forecast").get_double("cost_per_iteration_usd"), 0);
  }
  // Its formulas take links from nowhere else.
  run({"--profiles", path("library.json"), "--cost-model=sailor-artifact", "--model.name=OPT-350", "--training.global-batch=1024",
       "--pool=A100-40=16/4"});
  EXPECT_NE(err_.find("no links are known between nodes of A100-40, "), std::string::npos) << err_;
  EXPECT_NE(err_.find("zones that have them: us-central1-a, "), std::string::npos) << err_;
}

}  // namespace
}  // namespace flotilla::app
