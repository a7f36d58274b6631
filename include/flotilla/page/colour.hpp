#pragma once
#include <cstddef>

namespace flotilla::page {

/// Okabe and Ito's colours, which readers with any colour vision tell apart; in the dark those that are dim on black are lighter
/// (document.cpp). Grey is for what is idle, void or beside the point.
enum class Colour { blue, orange, green, purple, sky, vermillion, yellow, grey };

/// The colour of the i-th of several things that have no colour of their own.
constexpr Colour colour_of(std::size_t i) { return static_cast<Colour>(i % static_cast<std::size_t>(Colour::grey)); }

}  // namespace flotilla::page
