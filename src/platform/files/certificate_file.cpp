#include "flotilla/files/certificate_file.hpp"

#include <cmath>

#include "flotilla/base/error.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

template <class T>
Node::Array list_of(const std::vector<T>& values) {
  Node::Array list;
  for (const T& value : values) list.push_back(Node{value});
  return list;
}

/// A boundary that no stages reach has none.
Node::Array potentials_of(const search::BoundProof& proof) {
  Node::Array list;
  for (const double potential : proof.potentials) list.push_back(std::isfinite(potential) ? Node{potential} : Node{});
  return list;
}

Node::Array resources_of(const search::BoundProof& proof) {
  Node::Array list;
  for (std::size_t r = 0; r < proof.resources.size(); ++r) {
    const auto& resource = proof.resources[r];
    list.push_back(Node::Object{{"name", resource.name},
                                {"available", resource.available},
                                {"use_by_type", list_of(resource.use)},
                                {"price_of_all", proof.prices[r]}});
  }
  return list;
}

Node::Array replicas_of(const search::BoundProof& proof) {
  Node::Array list;
  for (const auto& r : proof.replicas)
    list.push_back(list_of(std::vector<int>{r.first, r.last, r.type, r.tensor, r.alone, r.one_host, r.many, r.host}));
  return list;
}

Node::Array expenses_of(const search::BoundProof& proof) {
  Node::Array list;
  for (const auto& e : proof.expenses) list.push_back(Node::Array{Node{e.first}, Node{e.last}, Node{e.type}, Node{e.least}});
  return list;
}

}  // namespace

std::string certificate_to_json(const search::PlanAnswer& answer) {
  FLOTILLA_ASSERT(answer.best && answer.proof, "no plan, or no proof");
  const auto& proof = *answer.proof;
  return detail::pretty(Node::Object{{"format", std::string{"flotilla-certificate"}},
                                     {"version", 1},
                                     {"goal", to_string(proof.goal)},
                                     {"bound", proof.bound},
                                     {"answer", answer.best->value},
                                     {"bound_gap", answer.bound_gap},
                                     {"seconds", proof.seconds},
                                     {"global_batch", proof.batch},
                                     {"layers", proof.layers},
                                     {"types", list_of(proof.types)},
                                     {"resources", resources_of(proof)},
                                     {"potentials", potentials_of(proof)},
                                     {"replicas", replicas_of(proof)},
                                     {"expenses", expenses_of(proof)}});
}

}  // namespace flotilla::files
