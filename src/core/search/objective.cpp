#include "flotilla/search/objective.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"

namespace flotilla::search {
namespace {

constexpr std::array<const char*, 4> goal_names{"throughput", "cost", "billing", "energy"};  // in the order of Goal

struct Restriction {
  const char* name;
  bool Restrictions::*member;
};
constexpr std::array<Restriction, 6> known_restrictions{{{"one-microbatch-size", &Restrictions::one_microbatch_size},
                                                         {"equal-replicas", &Restrictions::equal_replicas},
                                                         {"even-layers", &Restrictions::even_layers},
                                                         {"one-device-type", &Restrictions::one_device_type},
                                                         {"one-tensor-degree-per-stage", &Restrictions::one_tensor_degree_per_stage},
                                                         {"uniform-degrees", &Restrictions::uniform_degrees}}};

std::string listed(const std::vector<std::string>& names) {
  std::string words;
  for (const auto& name : names) words += (words.empty() ? "" : ", ") + name;
  return words;
}

}  // namespace

std::string to_string(Goal goal) { return goal_names.at(static_cast<std::size_t>(goal)); }

Goal parse_goal(const std::string& name) {
  for (std::size_t g = 0; g < goal_names.size(); ++g)
    if (name == goal_names[g]) return static_cast<Goal>(g);
  const std::vector<std::string> names{goal_names.begin(), goal_names.end()};
  throw Error{ErrorKind::bad_input,
              text("no goal is called ", in_quotes(name), suggestion(name, names), "; expected one of ", listed(names))};
}

std::vector<std::string> restriction_names() {
  std::vector<std::string> names;
  for (const auto& restriction : known_restrictions) names.emplace_back(restriction.name);
  return names;
}

std::vector<std::string> names_of(const Restrictions& restrictions) {
  std::vector<std::string> names;
  for (const auto& restriction : known_restrictions)
    if (restrictions.*restriction.member) names.emplace_back(restriction.name);
  return names;
}

void restrict(Restrictions& restrictions, const std::string& name) {
  const auto found = std::ranges::find_if(known_restrictions, [&](const Restriction& r) { return name == r.name; });
  FLOTILLA_REQUIRE(found != known_restrictions.end(), ErrorKind::bad_input, "no restriction is called ", in_quotes(name),
                   suggestion(name, restriction_names()), "; expected one of ", listed(restriction_names()));
  restrictions.*found->member = true;
}

}  // namespace flotilla::search
