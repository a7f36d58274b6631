#include "catalogue_pools.hpp"

#include <algorithm>

#include "flotilla/base/text.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/files/catalogue_file.hpp"

namespace flotilla::tools {
namespace {

const std::vector<std::string> types{"A100-40",  "A100-80", "V100-16", "V100-32", "H100",    "H200",
                                     "GH200-96", "L40S",    "L4",      "T4",      "RTX-3090"};
const std::vector<std::string> models{"gpt2",     "gpt2-medium", "gpt2-large", "gpt2-xl",  "opt-125m",
                                      "opt-350m", "opt-1.3b",    "opt-2.7b",   "opt-6.7b", "opt-13b"};

void add_devices(search::PlanRequest& request, fixture::Dice& dice, const std::string& type, int zones) {
  const int per_node = dice.one_of<int>({4, 8}), nodes = dice.one_of<int>({1, 2, 3, 4, 6, 8});
  for (int z = 0; z < zones; ++z) {
    const int here = nodes * (z + 1) / zones - nodes * z / zones;
    if (here > 0) request.pool.push_back({type, zones == 1 ? "" : text("zone-", z), here * per_node, per_node});
  }
}

}  // namespace

fixture::Instance catalogue_instance(int seed) {
  static const auto catalogue = files::built_in_catalogue();
  fixture::Dice dice{seed};
  fixture::Instance i;
  auto& r = i.request;
  r.model = model::built_in(dice.one_of(models));
  r.length = std::min(r.model.positions, dice.one_of<int>({512, 1024, 2048}));
  r.global_batch = dice.one_of<int>({32, 64, 100, 128, 256, 512});
  r.precision = dice.chance(0.5) ? Precision::fp32 : Precision::bf16;
  const int kinds = dice.pick(1, 3), zones = dice.chance(0.7) ? 1 : dice.pick(2, 3);
  std::vector<std::string> chosen;
  while (static_cast<int>(chosen.size()) < kinds)
    if (const auto& type = dice.one_of(types); std::ranges::find(chosen, type) == chosen.end()) chosen.push_back(type);
  for (const auto& type : chosen) add_devices(r, dice, type, zones);
  i.library = cluster::complete_from_catalogue({}, catalogue, chosen);
  i.runtime = program::runtime_named("flotilla");
  return i;
}

std::string in_words(const search::PlanRequest& request) {
  std::string line = text(request.model.name, ", batch ", request.global_batch, ", ", to_string(request.precision), ":");
  for (const auto& entry : request.pool)
    line += text(" ", entry.device_type, entry.zone.empty() ? "" : ":", entry.zone, "=", entry.count, "/", entry.per_node);
  return line;
}

}  // namespace flotilla::tools
