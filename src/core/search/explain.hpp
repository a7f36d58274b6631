#pragma once
#include "incumbents.hpp"

namespace flotilla::search {

/// Why `other` lost against `best`, in a few words.
std::string why_lost(const Evaluated& other, const Evaluated& best);

/// The largest reasons for which a device's memory is held, in words.
std::string contributors(const simulate::MemoryForecast&);

}  // namespace flotilla::search
