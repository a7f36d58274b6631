#pragma once
#include "network.hpp"

namespace flotilla::bench {

/// Nodes whose links lose packets where others do not, and a network that loses them everywhere.
void judge_losses(const BenchReport&, NetworkReasons&);

}  // namespace flotilla::bench
