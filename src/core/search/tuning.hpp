#pragma once
#include <cstddef>
#include <cstdint>

/// What the planner's effort is bounded by, and what it takes for granted. All of it are counts and ratios, no times: the same request has
/// the same answer on any machine. Each with what it was tuned on.
namespace flotilla::search::tuning {

// Even plans (even/), by branch and bound over bound ranks.

/// Layer cuts of one configuration that are tried. Cuts that differ only in stages which are not the bottleneck have equal bounds and
/// nearly equal forecasts; past this many the rest of the configuration is given up, which the answer's bound_gap then says. Tuned on: 24
/// random instances against enumeration (optimality_test), in which none was given up.
constexpr int even_cuts = 128;
/// Forecasts spent at the end on plans to compare the answer with.
/// Tuned on: find_plan_test, whose answers have all four alternatives.
constexpr int even_comparisons = 24;
/// Forecasts, and steps of the search (bounds, most of them). What is left then is in the answer's bound_gap.
/// Set, not tuned: no measurement backs it yet.
constexpr std::int64_t even_forecasts = 4'000;
constexpr int even_steps = 400'000;
/// Configurations that the memory bound excludes which are forecast to find the nearest miss.
/// Tuned on: find_plan_test.
constexpr std::size_t even_misses = 6;
/// A microbatch is believed up to so many times the largest one that was measured.
/// Set, not tuned: no measurement backs it yet.
constexpr std::int64_t believed_microbatch = 16;

// Bound ranks.

/// Plans over the pool of the ranks' devices that are bound to the ranks and forecast there.
/// Set, not tuned: no measurement backs it yet.
constexpr int bound_alternatives = 8;

// Answers.

/// So close to a limit is at it, in what keeps a plan from being better.
constexpr double at_limit = 0.99;

// A pool in which nothing fits: how many times as large pools are tried, and how many devices they may hold.
// Set, not tuned: no measurement backs them yet.
constexpr int largest_larger_pool = 64;
constexpr int most_devices_of_larger_pool = 1'000'000;

}  // namespace flotilla::search::tuning
