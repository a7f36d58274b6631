#include "app/common/forecast_basis.hpp"

#include <algorithm>

#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/catalogue_file.hpp"

namespace flotilla::app {
namespace {

options::Choice<bool> cost_models() {
  return {{"program", "sailor-artifact"},
          [](const std::string& name) { return name == "sailor-artifact"; },
          [](const bool& artifact) { return artifact ? "sailor-artifact" : "program"; }};
}

options::Choice<std::string> runtimes() {
  return {program::runtime_names(), [](const std::string& name) { return name; }, [](const std::string& name) { return name; }};
}

options::Choice<bool> document_kinds() {
  return {{"joined", "separate"},
          [](const std::string& name) { return name == "separate"; },
          [](const bool& v) { return v ? "separate" : "joined"; }};
}

}  // namespace

options::Choice<compute::AttentionKernel> attentions() {
  using compute::AttentionKernel;
  static const std::vector<std::string> names{"auto", "cudnn", "flotilla"};
  static const std::vector<AttentionKernel> values{AttentionKernel::automatic, AttentionKernel::cudnn, AttentionKernel::flotilla};
  return {names,
          [](const std::string& name) { return values.at(static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())); },
          [](const AttentionKernel& v) { return names.at(static_cast<std::size_t>(std::ranges::find(values, v) - values.begin())); }};
}

options::Choice<session::RunConfig::Comm::Reduction> reductions() {
  using Value = session::RunConfig::Comm::Reduction;
  return {{"ordered", "nccl"},
          [](const std::string& name) { return name == "nccl" ? Value::nccl : Value::ordered; },
          [](const Value& v) { return std::string{v == Value::nccl ? "nccl" : "ordered"}; }};
}

void add_forecast_basis(options::Table& t, const std::string& section, ForecastBasis& b) {
  const auto named = [&](const char* key) { return section + "." + key; };
  t.add(named("profiles"), &b.profiles, "device measurements: a probe's profile or an imported library",
        {.value = "FILE", .unset = "the catalogue alone", .alias = "profiles"});
  t.add(named("catalogue"), &b.catalogue, "device types of the site's own, before the built-in ones (docs/formats/catalogue.md)",
        {.value = "FILE", .unset = "the built-in catalogue alone", .alias = "catalogue"});
  t.add(named("runtime"), &b.runtime, "runtime that will execute the plan", runtimes(), {.alias = "runtime"});
  t.add(named("cost-model"), &b.sailor_artifact,
        "program: simulate the runtime's program; sailor-artifact: the closed formulas of the Sailor artifact", cost_models(),
        {.alias = "cost-model"});
  t.add(named("reduction"), &b.reduction,
        "all-reduces between GPUs by Flotilla: ordered: the same plan gives the same bits; nccl: NCCL's own, forecast as a ring or trees",
        reductions(), {.alias = "reduction"});
  t.add(named("attention"), &b.attention, "attention of GPUs by Flotilla; cudnn: room for cuDNN's workspace is counted", attentions(),
        {.alias = "attention"});
  t.add(named("deterministic"), &b.deterministic, "cuDNN's attention adds gradients in a fixed order, at the price of memory",
        {.alias = "deterministic"});
  t.add(named("expert-parallel"), &b.expert_parallel,
        "replicas that share the experts of a block, each as many of them, under a runtime that distributes experts",
        {.minimum = 0, .maximum = 1 << 20, .unset = "as many as divide experts and replicas", .alias = "expert-parallel"});
  t.add(named("price"), &b.prices.devices, "price of a device, such as A100-40=2.50USD/h; in one zone: A100-40@us-west1-b=2.20USD/h",
        {.value = "TYPE[@ZONE]=USD/h", .alias = "price"});
  t.add(named("billing"), &b.prices.billing, "billing units of a device (Slurm TRES weights), such as A100-40=16units/h",
        {.value = "TYPE[@ZONE]=units/h", .alias = "billing"});
  t.add(named("egress"), &b.prices.egress, "egress price from one zone to another, such as zone-a:zone-b=0.02USD/GB",
        {.value = "FROM:TO=USD/GB", .alias = "egress"});
  t.add(
      named("link"), &b.networks.links.words,
      "what a node gets between two zones, both ways unless TO:FROM is given, too, such as us-east1-b:us-west1-b=10Gbit/s,20ms; of a zone "
      "and itself, between its nodes; goes before what was measured",
      {.value = "FROM:TO=BANDWIDTH[,LATENCY]", .unset = "as measured, else assumed by distance", .alias = "link"});
  t.add(named("nic"), &b.networks.nics.words,
        "network cards of a node, such as A100-80@gpu=2x200Gbit/s; without a zone, of all nodes of the type",
        {.value = "TYPE[@ZONE]=[CARDSx]BANDWIDTH", .unset = "as measured, else the catalogue's usual node", .alias = "nic"});
  t.add(named("oversubscription"), &b.networks.trees.words,
        "of a zone's network: what its nodes can send over what the tree carries, such as gpu=2:1; without a zone, of all",
        {.value = "[ZONE=]RATIO", .unset = "1:1", .alias = "oversubscription"});
}

void add_documents(options::Table& t, bool& separate, const std::string& section) {
  t.add(section + ".documents", &separate,
        "separate: tokens attend to their own document of a sequence alone, and positions begin at 0 with each", document_kinds());
}

void note_origins(const options::Table& t, const std::string& section, ForecastBasis& b) {
  b.prices.devices_setting = t.describe(section + ".price");
  b.prices.billing_setting = t.describe(section + ".billing");
  b.prices.egress_setting = t.describe(section + ".egress");
  auto& n = b.networks;
  n.links.setting = t.describe(section + ".link");
  n.nics.setting = t.describe(section + ".nic");
  n.trees.setting = t.describe(section + ".oversubscription");
  for (const auto* option : {&n.links, &n.nics, &n.trees})
    if (b.sailor_artifact && !option->words.empty())
      refuse(option->setting, option->words.front(),
             "the cost model sailor-artifact knows measured links only; drop this option or --cost-model");
}

cluster::Catalogue catalogue_of(const ForecastBasis& b) {
  auto own = b.catalogue.empty() ? cluster::Catalogue{} : files::catalogue_from_json(files::Json::read(b.catalogue));
  auto built_in = files::built_in_catalogue();
  // A built-in type of the same name is the site's now, or a word would be both.
  std::erase_if(built_in, [&](const auto& entry) { return cluster::find_named(own, cluster::folded_name(entry.name)) != nullptr; });
  own.insert(own.end(), std::make_move_iterator(built_in.begin()), std::make_move_iterator(built_in.end()));
  return own;
}

files::Library known_devices(const ForecastBasis& b) {
  FLOTILLA_REQUIRE(
      !b.sailor_artifact || !b.profiles.empty(), ErrorKind::usage,
      "--cost-model sailor-artifact needs measured layers; give a library (--profiles FILE), as flotilla import sailor-profiles writes it");
  return b.profiles.empty() ? files::Library{} : files::read_library(b.profiles);
}

cluster::Profile profile_for(cluster::Profile profile, const ForecastBasis& b, const model::Config& model, int length) {
  if (drop_times_of_another_model(profile, model, length))
    log::warning(b.profiles, ": measured for a model of another shape (", profile.model_fingerprint,
                 "); its operation times are left out, and those of ", model.name, " estimated from the devices' peaks");
  return profile;
}

void require_one_price(const cluster::Profile& profile) {
  for (const auto& price : profile.zone_prices)
    FLOTILLA_REQUIRE(!(price.usd_per_hour > 0 || price.billing_weight > 0), ErrorKind::unavailable,
                     "--cost-model sailor-artifact knows one price of a type, and ", price.device_type, " has its own in zone '",
                     price.zone, "'; give one for all zones, or drop --cost-model");
}

ForecastSettings settings_of(const ForecastBasis& b) {
  ForecastSettings settings{.runtime = program::runtime_named(b.runtime), .sailor_artifact = b.sailor_artifact};
  if (b.expert_parallel > 0) {
    FLOTILLA_REQUIRE(settings.runtime.layers && settings.runtime.layers->expert_parallel != 1, ErrorKind::usage, "--expert-parallel ",
                     b.expert_parallel, ": the runtime ", b.runtime,
                     " holds all experts on every replica; write --runtime megatron-core, or leave it out");
    settings.runtime.layers->expert_parallel = b.expert_parallel;
  }
  settings.runtime.library_all_reduce = !settings.runtime.layers && b.reduction == session::RunConfig::Comm::Reduction::nccl;
  settings.runtime.separate_documents = b.separate_documents;
  settings.runtime.sources = b.sources;
  settings.device.attention = b.attention;
  settings.device.deterministic = b.deterministic;
  return settings;
}

}  // namespace flotilla::app
