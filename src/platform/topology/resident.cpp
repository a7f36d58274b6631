#include "flotilla/topology/resident.hpp"

#include <fstream>
#include <string>

namespace flotilla::topology {

Bytes peak_resident() {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      std::int64_t kibibytes = 0;
      status >> kibibytes;
      return {kibibytes * 1024};
    }
  return {};
}

// proc(5): writing 5 resets the peak resident set size to the present one.
void forget_peak_resident() { std::ofstream{"/proc/self/clear_refs"} << "5"; }

}  // namespace flotilla::topology
