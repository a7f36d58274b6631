#include "request.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::search {
namespace {

void check_at_least_one(const std::optional<int>& value, const char* name) {
  FLOTILLA_REQUIRE(!value || *value >= 1, ErrorKind::bad_input, "the ", name, " is ", *value, "; expected at least 1");
}

void check_cuts(const Request& request) {
  const auto& cuts = request.fixed.cuts;
  if (cuts.empty()) return;
  const int layers = request.model.layers();
  const bool rises = std::ranges::adjacent_find(cuts, std::ranges::greater_equal{}) == cuts.end();
  FLOTILLA_REQUIRE(cuts.size() >= 2 && cuts.front() == 0 && cuts.back() == layers && rises, ErrorKind::bad_input,
                   "the layer cuts must rise from 0 to ", layers, ", the layers of ", request.model.name);
  const int stages = static_cast<int>(cuts.size()) - 1, chunks = request.fixed.chunks.value_or(1);
  FLOTILLA_REQUIRE(stages % chunks == 0, ErrorKind::bad_input, "the layer cuts make ", stages, " stages, which are not ", chunks,
                   " for each device; change one of them");
  FLOTILLA_REQUIRE(!request.fixed.pipeline || *request.fixed.pipeline * chunks == stages, ErrorKind::bad_input, "the layer cuts make ",
                   stages, " stages, but the pipeline degree is ", *request.fixed.pipeline,
                   chunks > 1 ? text(" with ", chunks, " stages a device") : "", "; change one of them");
}

void check_fixed(const Request& request) {
  const Fixed& fixed = request.fixed;
  check_at_least_one(fixed.data, "data-parallel degree");
  check_at_least_one(fixed.pipeline, "pipeline degree");
  check_at_least_one(fixed.tensor, "tensor-parallel degree");
  check_at_least_one(fixed.microbatch, "microbatch");
  FLOTILLA_REQUIRE(!fixed.data || *fixed.data <= request.global_batch, ErrorKind::bad_input, "the data-parallel degree is ", *fixed.data,
                   "; expected at most the global batch, ", request.global_batch, " sequences");
  FLOTILLA_REQUIRE(!fixed.pipeline || *fixed.pipeline <= request.model.layers(), ErrorKind::bad_input, "the pipeline degree is ",
                   *fixed.pipeline, "; expected at most ", request.model.layers(), ", the layers of ", request.model.name);
  FLOTILLA_REQUIRE(!fixed.tensor || *fixed.tensor <= request.model.groups(), ErrorKind::bad_input, "the tensor-parallel degree is ",
                   *fixed.tensor, "; expected at most ", request.model.groups(),
                   request.model.shares_keys() ? ", the key and value heads of " : ", the heads of ", request.model.name);
  FLOTILLA_REQUIRE(!fixed.microbatch || *fixed.microbatch <= request.global_batch, ErrorKind::bad_input, "the microbatch is ",
                   *fixed.microbatch, "; expected at most the global batch, ", request.global_batch, " sequences");
}

void check_devices(const cluster::Profile& profile) {
  FLOTILLA_REQUIRE(!profile.devices.empty(), ErrorKind::bad_input, "the cluster profile lists no devices; measure with 'flotilla probe'");
  for (std::size_t i = 0; i < profile.devices.size(); ++i) {
    const auto& device = profile.devices[i];
    FLOTILLA_REQUIRE(device.rank == Rank{static_cast<int>(i)}, ErrorKind::bad_input, "device ", i, " of the cluster profile is of rank ",
                     device.rank, "; expected the devices in order of their ranks, 0, 1, ...");
    const auto* type = cluster::find_type(profile, device.type);
    FLOTILLA_REQUIRE(type && type->memory.count > 0, ErrorKind::bad_input, "the cluster profile does not say how much memory device type '",
                     device.type, "' of rank ", device.rank, " has; measure again with 'flotilla probe'");
  }
}

}  // namespace

model::LayerShape Problem::shape(int sequences, int tensor) const {
  return {sequences, request.length, tensor, 0, request.precision, request.fixed.sequence_parallel.value_or(false) && tensor > 1};
}

std::vector<int> Problem::own_cuts() const {
  const auto& cuts = request.fixed.cuts;
  if (cuts.empty()) return {};
  const std::size_t own = (cuts.size() - 1) / static_cast<std::size_t>(chunks());
  std::vector<int> out{0};
  for (std::size_t s = 0; s < own; ++s) {
    int layers = 0;
    for (std::size_t i = s; i + 1 < cuts.size(); i += own) layers += cuts[i + 1] - cuts[i];
    out.push_back(out.back() + layers);
  }
  return out;
}

Request settled(Request request) {
  const Manner manner = settled(manner_of(request.fixed));
  request.fixed.schedule = manner.schedule;
  request.fixed.chunks = manner.chunks;
  return request;
}

Bytes Problem::limit(Rank rank) const {
  const Bytes memory = cluster::find_type(profile, device(rank).type)->memory;
  return request.memory_limit ? std::min(memory, *request.memory_limit) : memory;
}

void check(const Request& request, const cluster::Profile& profile) {
  model::check(request.model, "model");
  FLOTILLA_REQUIRE(request.length >= 1 && request.length <= request.model.positions, ErrorKind::bad_input, "the sequence length is ",
                   request.length, "; ", request.model.name, " takes 1 to ", request.model.positions, " tokens");
  FLOTILLA_REQUIRE(request.global_batch >= 1, ErrorKind::bad_input, "the global batch is ", request.global_batch,
                   "; expected at least 1 sequence");
  FLOTILLA_REQUIRE(!request.memory_limit || request.memory_limit->count > 0, ErrorKind::bad_input, "the memory limit is ",
                   *request.memory_limit, "; expected more than nothing");
  check_fixed(request);
  check_cuts(request);
  check_devices(profile);
}

}  // namespace flotilla::search
