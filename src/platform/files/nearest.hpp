#pragma once
#include <span>
#include <string>
#include <string_view>

namespace flotilla::files {

/// "; did you mean 'x'?" when one of `known` is a few letters away, else "; expected one of x, y, z".
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

}  // namespace flotilla::files
