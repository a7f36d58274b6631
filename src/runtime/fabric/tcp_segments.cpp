#include "tcp_segments.hpp"

#include <fstream>
#include <sstream>
#include <string>

namespace flotilla::fabric {

// Two lines of each protocol: "Tcp:" and names, "Tcp:" and numbers in the same order.
TcpSegments segments_so_far(const std::filesystem::path& snmp) {
  std::ifstream file{snmp};
  std::string names, numbers;
  while (std::getline(file, names) && !names.starts_with("Tcp:")) {
  }
  std::getline(file, numbers);
  std::istringstream name_words{names}, number_words{numbers};
  TcpSegments segments;
  for (std::string name, number; name_words >> name && number_words >> number;) {
    if (name == "OutSegs") segments.sent = std::stoll(number);
    if (name == "RetransSegs") segments.resent = std::stoll(number);
  }
  return segments;
}

}  // namespace flotilla::fabric
