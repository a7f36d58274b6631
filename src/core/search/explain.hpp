#pragma once
#include "incumbents.hpp"

namespace flotilla::search {

/// Why `other` lost against `best`, in a few words.
std::string why_lost(const Evaluated& other, const Evaluated& best);

}  // namespace flotilla::search
