#pragma once
#include <cstdint>
#include <filesystem>

namespace flotilla::fabric {

/// Segments of TCP that this node, or its network namespace, has sent since it was started, and of these those that were sent once more
/// because nobody acknowledged them.
struct TcpSegments {
  std::int64_t sent = 0, resent = 0;
};
/// As the kernel counts them (RFC 4022: tcpOutSegs without what is sent again, and tcpRetransSegs); zeros where it does not.
TcpSegments segments_so_far(const std::filesystem::path& snmp = "/proc/net/snmp");

}  // namespace flotilla::fabric
