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
Node::Array potentials_of(const std::vector<double>& potentials) {
  Node::Array list(potentials.size());
  for (std::size_t b = 0; b < potentials.size(); ++b)
    if (std::isfinite(potentials[b])) list[b] = Node{potentials[b]};
  return list;
}

Node::Array resources_of(const search::BoundProof::Case& one) {
  Node::Array list;
  for (const auto& resource : one.resources)
    list.push_back(Node::Object{{"name", resource.name},
                                {"available", resource.available},
                                {"use_by_type", list_of(resource.use)},
                                {"price_of_all", resource.price}});
  return list;
}

Node::Array replicas_of(const search::BoundProof::Case& one) {
  Node::Array list;
  for (const auto& r : one.replicas)
    list.push_back(list_of(std::vector<int>{r.first, r.last, r.type, r.tensor, r.alone, r.one_host, r.many, r.host}));
  return list;
}

Node::Array cases_of(const search::BoundProof& proof) {
  Node::Array list;
  for (const auto& one : proof.cases)
    list.push_back(Node::Object{{"plans", one.plans},
                                {"seconds", one.seconds},
                                {"least_replicas", one.least_replicas},
                                {"by_batch", one.by_batch},
                                {"resources", resources_of(one)},
                                {"potentials", potentials_of(one.potentials)},
                                {"replicas", replicas_of(one)}});
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
                                     {"version", 2},
                                     {"goal", to_string(proof.goal)},
                                     {"bound", proof.bound},
                                     {"answer", answer.best->value},
                                     {"bound_gap", answer.bound_gap},
                                     {"seconds", proof.seconds},
                                     {"global_batch", proof.batch},
                                     {"layers", proof.layers},
                                     {"types", list_of(proof.types)},
                                     {"cases", cases_of(proof)},
                                     {"potentials", potentials_of(proof.potentials)},
                                     {"expenses", expenses_of(proof)}});
}

}  // namespace flotilla::files
