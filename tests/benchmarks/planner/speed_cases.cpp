#include "speed_cases.hpp"

#include <algorithm>

#include "flotilla/base/text.hpp"
#include "flotilla/files/sailor.hpp"

namespace flotilla::benchmarks {
namespace {

using search::PlanRequest;
using search::Pool;

using Names = std::vector<std::string>;

const Names published_types{"A100-40", "V100-16", "GH-96", "A100-80", "Titan-RTX", "RTX-3090"};
const Names published_zones{"us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f", "us-west1-b"};
const Names catalogue_types{"A100-40", "V100-16", "GH200-96", "A100-80", "H100", "H200", "L40S", "V100-32"};
constexpr int devices_per_node = 4;

Names first(const Names& names, int count) { return {names.begin(), names.begin() + count}; }

Names zones(int count) {
  Names names;
  for (int z = 0; z < count; ++z) names.push_back(text("zone-", z));
  return names;
}

/// `devices` in all, shared among all types and zones.
Pool pool_of(const Names& types, const Names& places, int devices) {
  Pool pool;
  const int entries = static_cast<int>(types.size() * places.size());
  for (const auto& type : types)
    for (const auto& zone : places) {
      const int e = static_cast<int>(pool.size());
      pool.push_back({type, zone, devices / entries + (e < devices % entries ? 1 : 0), devices_per_node});
    }
  return pool;
}

PlanRequest request_of(const model::Config& model, Pool pool, int global_batch = 1024) {
  PlanRequest request;
  request.model = model;
  request.length = model.positions;
  request.global_batch = global_batch;
  request.pool = std::move(pool);
  return request;
}

PlanRequest built_in(const char* model, Pool pool, int global_batch = 1024) {
  return request_of(model::built_in(model), std::move(pool), global_batch);
}

bool has(const files::Library& library, const char* model) {
  return std::ranges::find(library.models, model, &model::Config::name) != library.models.end();
}

}  // namespace

std::vector<SpeedCase> aims(const files::Library& library) {
  const bool published = has(library, "OPT-350");
  const auto model = published ? *files::sailor_model("OPT-350") : model::built_in("opt-350m");
  const Names& types = published ? published_types : catalogue_types;
  const auto where = [&](int count) { return published ? first(published_zones, count) : zones(count); };
  const auto make = [&](std::string what, int kinds, int places, int devices, double aim) {
    return SpeedCase{std::move(what), request_of(model, pool_of(first(types, kinds), where(places), devices)), aim, published};
  };
  return {
      make("256 devices of one type", 1, 1, 256, 4),
      make("512 devices of two types", 2, 1, 512, 20),
      {text("128 ", types[0], " + 384 ", types[1]),
       request_of(model, {{types[0], where(1).front(), 128, devices_per_node}, {types[1], where(1).front(), 384, devices_per_node}}), 20,
       published},
      make("3 types x 32", 3, 1, 3 * 32, 50),
      make("6 types x 64 in 4 zones", 6, 4, 6 * 64, 350),
      {"100,000 devices of 8 types in 16 zones", built_in("opt-6.7b", pool_of(catalogue_types, zones(16), 100'000), 8192), 1500, false}};
}

std::vector<Series> growth(const files::Library& library) {
  std::vector<Series> all;
  const auto add = [&](std::string title) -> std::vector<SpeedCase>& {
    all.push_back({std::move(title), {}});
    return all.back().cases;
  };
  if (has(library, "OPT-350")) {
    const auto opt = *files::sailor_model("OPT-350");
    const auto published = [&](std::string what, const model::Config& model, const Names& types, const Names& places, int devices) {
      return SpeedCase{std::move(what), request_of(model, pool_of(types, places, devices)), 0, true};
    };
    auto& devices = add("Devices: A100-40, OPT-350, published library");
    for (const int count : {8, 32, 128, 512, 2048})
      devices.push_back(published(text(count, " devices"), opt, first(published_types, 1), first(published_zones, 1), count));
    auto& types = add("Types: 32 devices each, OPT-350, published library");
    for (const int count : {1, 2, 3})
      types.push_back(published(text(count, " types"), opt, first(published_types, count), first(published_zones, 1), 32 * count));
    auto& layers = add("Layers: 64 A100-40, published library");
    for (const char* name : {"OPT-350", "GPT-Neo-2.7", "OPT-30"}) {
      const auto model = *files::sailor_model(name);
      layers.push_back(published(text(model.layers(), " layers"), model, first(published_types, 1), first(published_zones, 1), 64));
    }
    auto& places = add("Zones: 32 A100-40 each, OPT-350, published library");
    for (const int count : {1, 2, 3, 4, 5})
      places.push_back(published(text(count, " zones"), opt, first(published_types, 1), first(published_zones, count), 32 * count));
  }
  auto& devices = add("Devices: A100-40, opt-350m, catalogue");
  for (const int count : {8, 64, 512, 4096, 32768})
    devices.push_back({text(count, " devices"), built_in("opt-350m", pool_of(first(catalogue_types, 1), {""}, count), 4096)});
  auto& types = add("Types: 64 devices each, opt-350m, catalogue");
  for (const int count : {1, 2, 3, 4, 6, 8})
    types.push_back({text(count, " types"), built_in("opt-350m", pool_of(first(catalogue_types, count), {""}, 64 * count))});
  auto& layers = add("Layers: 256 A100-80, catalogue");
  for (const char* name : {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "opt-66b"})
    layers.push_back({text(model::built_in(name).layers(), " layers"), built_in(name, pool_of({"A100-80"}, {""}, 256))});
  auto& places = add("Zones: 64 A100-40 each, opt-350m, catalogue");
  for (const int count : {1, 2, 4, 8, 16})
    places.push_back({text(count, " zones"), built_in("opt-350m", pool_of(first(catalogue_types, 1), zones(count), 64 * count))});
  return all;
}

std::vector<SpeedCase> small_cases() {
  const auto make = [](std::string what, const Names& types, const Names& places, int devices) {
    return SpeedCase{std::move(what), built_in("gpt2-tiny", pool_of(types, places, devices), 16), 0, true};
  };
  std::vector<SpeedCase> all{make("one type", {"A"}, {"z0"}, 8), make("two types", {"A", "B"}, {"z0"}, 8),
                             make("two zones", {"A"}, {"z0", "z1"}, 8)};
  all.push_back(make("least cost, fast enough", {"A", "B"}, {"z0"}, 6));
  all.back().request.objective.goal = search::Goal::cost;
  all.back().request.objective.limits.iterations_per_second = 0.02;
  all.push_back(make("one size and equal replicas", {"A", "B"}, {"z0", "z1"}, 8));
  all.back().request.restrictions.one_microbatch_size = all.back().request.restrictions.equal_replicas = true;
  return all;
}

cluster::Profile made_up_library() {
  cluster::Profile library;
  const auto model = model::built_in("gpt2-tiny");
  const int layers = model.layers();
  constexpr double trillion = 1e12, billion = 1e9;
  for (const auto& [name, speed] : {std::pair{"A", 2.0}, {"B", 1.0}}) {
    cluster::DeviceType type;
    type.name = name;
    type.kind = cluster::DeviceKind::gpu;
    type.memory = {std::int64_t{8} << 30};
    type.peak_fp32 = {speed * trillion};
    type.memory_bandwidth = {speed * 100 * billion};
    type.per_node = devices_per_node;
    type.usd_per_hour = speed;
    library.device_types.push_back(type);
    for (const int m : {1, 2})
      for (const int degree : {1, 2}) {
        const auto add = [&, n = name, s = speed](int from, int to, double seconds) {
          const double time = seconds * m / s / degree;
          library.layer_times.push_back({model.name, n, from, to, degree, m, Precision::fp32, {time}, {2 * time}, {0.01}});
        };
        add(0, 1, 0.02), add(1, layers - 1, 0.2), add(layers - 1, layers, 0.1);
      }
  }
  for (const int degree : {1, 2}) {
    const auto add = [&](int from, int to, std::int64_t parameters, std::int64_t output) {
      library.layer_sizes.push_back({model.name, from, to, degree, parameters / degree, 0, output, 30'000'000 / degree});
    };
    add(0, 1, 20'000'000, 4'000'000), add(1, layers - 1, 40'000'000, 4'000'000), add(layers - 1, layers, 20'000'000, 1'000);
  }
  for (const char* from : {"A", "B"})
    for (const char* to : {"A", "B"})
      for (const int give : {1, 2})
        for (const int take : {1, 2})
          for (const char* zone : {"z0", "z1"})
            for (const char* other : {"z0", "z1"}) {
              const double rate = std::string_view{zone} == other ? 2 : 0.5;
              library.link_fits.push_back({zone, from, give, other, to, take, 0, 0, rate, {rate * billion}});
            }
  library.egress_prices = {{"z0", "z1", 1e-11}, {"z1", "z0", 1e-11}};
  const auto link = [](cluster::LinkLevel level, double rate) { return cluster::Link{level, "any", "any", {{{0}, {1e-5}, {rate}}}, 0.05}; };
  library.links = {link(cluster::LinkLevel::node, 20 * billion), link(cluster::LinkLevel::zone, 2 * billion),
                   link(cluster::LinkLevel::wide, 0.5 * billion)};
  return library;
}

}  // namespace flotilla::benchmarks
