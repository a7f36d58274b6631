#include "app/submit/submit_text.hpp"

#include <algorithm>

#include "app/common/planning_text.hpp"
#include "app/common/report_text.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {
namespace {

const Taken* taken_of(const Submission& s, const SlurmOffer& offer) {
  const auto found =
      std::ranges::find_if(s.taken, [&](const Taken& t) { return t.offer.partition == offer.partition && t.offer.type == offer.type; });
  return found == s.taken.end() ? nullptr : &*found;
}

std::string nodes_in_words(const Taken* t) {
  if (t == nullptr) return "none";
  return t->fewest_nodes < t->nodes ? text(t->fewest_nodes, "-", t->nodes) : text(t->nodes);
}

std::string offers_table(const Submission& s, const Style& style) {
  TextTable table{{{"partition"},
                   {"device"},
                   {"nodes", Align::right},
                   {"of each", Align::right},
                   {"asked for", Align::right},
                   {"time limit", Align::right},
                   {"preemption"},
                   {"a device", Align::right}}};
  for (const auto& offer : s.offers.all)
    table.add({offer.partition, offer.type, text(offer.nodes), text(offer.per_node), nodes_in_words(taken_of(s, offer)), offer.time_limit,
               offer.preemption, offer.units_per_hour > 0 ? billing(offer.units_per_hour) + "/h" : "-"});
  return table.print(style);
}

std::string notes_in_words(const std::vector<std::string>& notes, int width) {
  std::string out;
  for (const auto& note : notes) out += "- " + options::wrap(note, 2, width - 2) + "\n";
  return out;
}

std::string counted(std::size_t number, const char* what) { return text(number, " ", what, number == 1 ? "" : "s"); }

std::string slurm_cluster_in_words(const Submission& s) {
  const auto usable = std::ranges::count_if(s.slurm_cluster.nodes, [](const auto& node) { return node.usable; });
  const auto free = std::ranges::count_if(s.slurm_cluster.nodes, [](const auto& node) { return node.idle || node.shared; });
  return text(s.slurm_cluster.version.empty() ? "" : text("Slurm ", s.slurm_cluster.version, ": "),
              counted(s.slurm_cluster.partitions.size(), "partition"), ", ", counted(s.slurm_cluster.nodes.size(), "node"), ", ", usable,
              " of them working, ", free, " with something free; ",
              s.waits ? "planned over all working nodes" : "planned over what is free now");
}

double hours(const Submission& s) { return s.planning.forecast->iteration.value * static_cast<double>(s.steps) / 3600; }

std::string component_json(const Taken& t) {
  files::JsonLine line;
  line.add("partition", t.offer.partition).add("device_type", t.offer.type).add("gres", t.offer.gres).add("constraint", t.offer.constraint);
  line.add("nodes", t.nodes).add("fewest_nodes", t.fewest_nodes).add("ranks_per_node", t.per_node).add("cpus_per_task", t.offer.cpus_each);
  line.add("billing_units_per_hour", t.offer.units_per_hour * t.nodes * t.per_node);
  return line.text();
}

std::string offer_json(const SlurmOffer& o) {
  files::JsonLine line;
  line.add("partition", o.partition).add("device_type", o.type).add("gres", o.gres).add("constraint", o.constraint);
  line.add("nodes", o.nodes).add("devices_per_node", o.per_node).add("billing_units_per_device_hour", o.units_per_hour);
  return line.text();
}

template <class Items, class Write>
std::string array_of(const Items& items, Write write) {
  std::string list;
  for (const auto& item : items) list += (list.empty() ? "" : ", ") + write(item);
  return "[" + list + "]";
}

}  // namespace

std::string price_in_words(const Submission& s) {
  const double units = units_per_hour(s.taken);
  if (units <= 0) return "";
  if (s.steps == 0) return billing(units) + "/h";
  return text(billing(units), "/h, ", billing(units * hours(s)), " for ", s.steps, " iterations in ", Seconds{hours(s) * 3600});
}

std::string submission_text(const Submission& s, const Style& style, int width) {
  std::string out = key_values_within({{"site", slurm_cluster_in_words(s)}}, width) + "\n" + offers_table(s, style);
  if (!s.offers.notes.empty()) out += "\n" + notes_in_words(s.offers.notes, width);
  out += "\n" + planning_text(s.planning, style, width) + "\n";
  std::vector<std::pair<std::string, std::string>> lines;
  if (const auto price = price_in_words(s); !price.empty()) lines.emplace_back("price", price);
  if (!s.file.empty()) lines.emplace_back("script", s.file);
  if (!s.job.empty()) lines.emplace_back("job", s.job);
  return out + key_values_within(lines, width);
}

std::string submission_json(const Submission& s) {
  files::JsonLine line;
  line.add("format", "flotilla-submission").add("version", 1).add("slurm_version", s.slurm_cluster.version).add("waits", s.waits);
  line.add_json("offers", array_of(s.offers.all, offer_json)).add_json("notes", files::json_array(s.offers.notes));
  line.add_json("components", array_of(s.taken, component_json)).add("billing_units_per_hour", units_per_hour(s.taken));
  if (s.steps > 0)
    line.add("steps", s.steps).add("billing_units", units_per_hour(s.taken) * hours(s));
  else
    line.add_null("steps").add_null("billing_units");
  line.add("script", s.script).add_json("planning", files::planning_to_json(s.planning));
  if (s.job.empty())
    line.add_null("job");
  else
    line.add("job", s.job);
  return line.text() + "\n";
}

}  // namespace flotilla::app
