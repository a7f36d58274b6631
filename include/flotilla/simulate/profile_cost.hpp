#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "flotilla/cluster/transports.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

/// What a profile says of its device types: costs that do not depend on which devices it lists.
class TypeCosts;
/// For many forecasts of profiles that differ in their devices alone, so that each need not read the rest anew. Holds a reference: the
/// profile must outlive it. Remembers what it was asked; threads need one each.
std::shared_ptr<TypeCosts> type_costs_of(const cluster::Profile&);

/// What an exchange takes over each transport that joins all who take part; through hosts always.
struct TransportCosts {
  std::array<std::optional<Cost>, cluster::transport_count> costs;

  const std::optional<Cost>& of(cluster::Transport t) const { return costs[static_cast<std::size_t>(t)]; }
  std::optional<Cost>& of(cluster::Transport t) { return costs[static_cast<std::size_t>(t)]; }
  const Cost& chosen(std::optional<cluster::Transport> wanted) const;
};

/// Costs from a measured profile.
///
/// An operation takes its measured time (cluster::operation_time). A combination of (type, operation, tensor parallel, precision) that
/// was never measured takes a roofline, max(flops / peak, traffic / bandwidth), times measured / roofline of the nearest degree
/// that was; with none of the operation measured the roofline stands alone. Never zero, never silently: Cost::estimated says so.
///
/// A message or collective between GPUs takes the transport that is the fastest for it, by the profile, or the one that the profile wants.
///
/// Remembers what it was asked; calls from several threads need a copy each. Holds a reference: the profile must outlive it.
class ProfileCost : public InstructionCost {
 public:
  /// `types`: of this profile, with these or other devices; its own where none are given.
  explicit ProfileCost(const cluster::Profile&, std::shared_ptr<TypeCosts> types = nullptr);
  /// For programs of a described runtime: whole layers from the profile's layer times; where there are none, by the roofline with that
  /// runtime's kernels (docs/runtimes.md).
  ProfileCost(const cluster::Profile&, const program::LayerRuntime&, std::shared_ptr<TypeCosts> types = nullptr);
  ~ProfileCost() override;
  ProfileCost(const ProfileCost&) = delete;
  ProfileCost& operator=(const ProfileCost&) = delete;

  Cost compute(const program::Program&, const program::RankClass&, const program::Instruction&, int sequences) const override;
  Cost message(Rank from, Rank to, Bytes, const Flows& flows = {}) const override;
  Cost collective(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes element, const Flows& flows = {}) const override;
  /// Our runtime's sum over a large group, of which `some` stand for all `members`: as many of each kind of host as tell how they are
  /// joined. Uplinks carry as large a share of all as of these.
  Cost sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) const;
  /// The same by transport.
  TransportCosts by_transport(Rank from, Rank to, Bytes, const Flows& flows = {}) const;
  TransportCosts by_transport(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes element, const Flows& flows = {}) const;
  /// Profile::wanted_transport.
  std::optional<cluster::Transport> wanted_transport() const;
  cluster::Interference interference(const std::string& device_type) const override;
  double collective_share(const program::Group&) const override;
  std::uint64_t host(Rank) const override;
  int lanes(Rank from, Rank to) const override;
  int uplink(Rank) const override;
  std::uint64_t path(Rank from, Rank to) const override;
  std::uint64_t path(const program::Group&) const override;

  /// One run of one operation. Throws Error{bad_input} when the profile knows neither the type's operation times nor its peak and
  /// bandwidth.
  Cost operation(const model::Config&, const std::string& device_type, model::Operation, const model::LayerShape&) const;
  /// AdamW on that many elements of fp32 master weights, with the copy in `precision`.
  Cost adamw(const std::string& device_type, std::int64_t elements, Precision) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::simulate
