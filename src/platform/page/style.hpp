#pragma once
#include <string_view>

namespace flotilla::page {

/// Of every page. It names no address: a page loads nothing.
extern const std::string_view style;

}  // namespace flotilla::page
