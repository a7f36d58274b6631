#include "app/restrictions.hpp"

#include <algorithm>
#include <array>

#include "app/refuse.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

struct Named {
  const char* name;
  bool search::Restrictions::*member;
};

constexpr std::array<Named, 5> all{{{"one-microbatch-size", &search::Restrictions::one_microbatch_size},
                                    {"equal-replicas", &search::Restrictions::equal_replicas},
                                    {"even-layers", &search::Restrictions::even_layers},
                                    {"one-device-type", &search::Restrictions::one_device_type},
                                    {"one-tensor-degree-per-stage", &search::Restrictions::one_tensor_degree_per_stage}}};

void set(search::Restrictions& restrictions, const std::string& name, const options::Setting& option) {
  const auto found = std::ranges::find_if(all, [&](const Named& n) { return name == n.name; });
  if (found == all.end()) {
    std::string listed;
    for (const auto& n : all) listed += text(listed.empty() ? "" : ", ", n.name);
    refuse(option, name, text("no restriction is called so", suggestion(name, restriction_names()), "; there are ", listed));
  }
  restrictions.*found->member = true;
}

}  // namespace

std::vector<std::string> restriction_names() {
  std::vector<std::string> names;
  for (const auto& n : all) names.emplace_back(n.name);
  return names;
}

search::Restrictions read_restrictions(const std::vector<std::string>& items, const options::Setting& option) {
  search::Restrictions restrictions;
  for (const auto& item : items)
    for (std::size_t begin = 0; begin <= item.size();) {
      const auto end = std::min(item.find(',', begin), item.size());
      set(restrictions, item.substr(begin, end - begin), option);
      begin = end + 1;
    }
  return restrictions;
}

std::vector<std::string> names_of(const search::Restrictions& restrictions) {
  std::vector<std::string> names;
  for (const auto& n : all)
    if (restrictions.*n.member) names.emplace_back(n.name);
  return names;
}

}  // namespace flotilla::app
