#include <map>
#include <set>

#include "app/inspect/inspect.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

std::string listed(const std::set<int>& numbers) {
  std::string words;
  for (const int number : numbers) words += text(words.empty() ? "" : ",", number);
  return words;
}

std::string models(const files::Library& library, const Style& style) {
  TextTable table{{{"model"},
                   {"family"},
                   {"blocks", Align::right},
                   {"hidden", Align::right},
                   {"heads", Align::right},
                   {"positions", Align::right},
                   {"sizes at tensor", Align::right}}};
  for (const auto& m : library.models) {
    std::set<int> degrees;
    for (const auto& size : library.profile.layer_sizes)
      if (size.model == m.name) degrees.insert(size.tensor_parallel);
    table.add(
        {m.name, m.family, text(m.blocks), text(m.hidden), text(m.heads), text(m.positions), degrees.empty() ? "none" : listed(degrees)});
  }
  return table.print(style);
}

std::string layer_times(const cluster::Profile& profile, const Style& style) {
  struct Known {
    std::set<int> degrees, sequences;
    int rows = 0;
  };
  std::map<std::pair<std::string, std::string>, Known> all;
  for (const auto& time : profile.layer_times) {
    Known& known = all[{time.model, time.device_type}];
    known.degrees.insert(time.tensor_parallel);
    known.sequences.insert(time.sequences);
    ++known.rows;
  }
  TextTable table{{{"layer times of"}, {"device type"}, {"tensor", Align::right}, {"microbatches", Align::right}, {"times", Align::right}}};
  for (const auto& [key, known] : all) table.add({key.first, key.second, listed(known.degrees), listed(known.sequences), text(known.rows)});
  return table.print(style);
}

std::string link_fits(const cluster::Profile& profile, const Style& style) {
  struct Known {
    std::set<std::pair<std::string, std::string>> zones;
    int fits = 0;
    double slowest = 0, fastest = 0;
  };
  std::map<std::pair<std::string, std::string>, Known> all;
  for (const auto& fit : profile.link_fits) {
    const auto to = fit.inside_node() ? std::string{"(inside a node)"} : fit.to_type;
    Known& known = all[{fit.from_type, to}];
    known.slowest = known.fits == 0 ? fit.most.value : std::min(known.slowest, fit.most.value);
    known.fastest = std::max(known.fastest, fit.most.value);
    known.zones.emplace(fit.from_zone, fit.to_zone);
    ++known.fits;
  }
  TextTable table{
      {{"links from"}, {"to"}, {"zone pairs", Align::right}, {"fits", Align::right}, {"slowest", Align::right}, {"fastest", Align::right}}};
  for (const auto& [key, known] : all)
    table.add({key.first, key.second, text(known.zones.size()), text(known.fits), to_string(BytesPerSecond{known.slowest}),
               to_string(BytesPerSecond{known.fastest})});
  return table.print(style);
}

}  // namespace

std::string library_text(const files::Library& library, const Style& style) {
  const auto& p = library.profile;
  std::string out = profile_text(p, style);
  if (!library.models.empty()) out += "\n" + models(library, style);
  if (!p.layer_times.empty()) out += "\n" + layer_times(p, style);
  if (!p.link_fits.empty()) out += "\n" + link_fits(p, style);
  if (!p.egress_prices.empty())
    out += text("\n", p.egress_prices.size(), p.egress_prices.size() == 1 ? " price" : " prices", " of traffic between zones\n");
  return out;
}

}  // namespace flotilla::app
