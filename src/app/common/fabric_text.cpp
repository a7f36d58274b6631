#include "app/common/fabric_text.hpp"

#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {

std::string fabric_text(const std::vector<bench::FabricLink>& links, const Style& style) {
  TextTable table{{{"network"},
                   {"UCX latency", Align::right},
                   {"MPI latency", Align::right},
                   {"at", Align::right},
                   {"UCX rate", Align::right},
                   {"MPI rate", Align::right},
                   {"MPI of UCX", Align::right}}};
  for (const auto& link : links) {
    const auto name = printable(link.from == link.to ? "inside " + link.from : link.from + " - " + link.to);
    if (link.points.empty()) {
      table.add({name}, printable(link.refusal));
      continue;
    }
    const auto &first = link.points.front(), &last = link.points.back();
    table.add({name, to_string(first.ucx_latency), to_string(first.mpi_latency), to_string(last.size), to_string(last.ucx),
               to_string(last.mpi), percent(bench::mpi_share(link))});
  }
  return table.empty() ? "" : table.print(style);
}

}  // namespace flotilla::app
