#pragma once
#include <cstdint>

namespace flotilla::cluster {

enum class DeviceKind : std::uint8_t { cpu, gpu };

}  // namespace flotilla::cluster
