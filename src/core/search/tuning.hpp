#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

/// What the planner's effort is bounded by, and what it takes for granted. All of it are counts and ratios, no times: the same request has
/// the same answer on any machine. Each with what it was tuned on.
namespace flotilla::search::tuning {

// Candidates.

/// A microbatch is believed up to so many times the largest one that was measured.
/// Set, not tuned: no measurement backs it yet.
constexpr std::int64_t believed_microbatch = 16;

/// Plans among which the one that is best with certainty is chosen: the best forecasts of every shape.
/// Set, not tuned: no measurement backs it yet.
constexpr int certain_alternatives = 32;

// Answers.

/// So close to a limit is at it, in what keeps a plan from being better.
constexpr double at_limit = 0.99;

// A pool in which nothing fits: how many times as large pools are tried, and how many devices they may hold.
// Set, not tuned: no measurement backs them yet.
constexpr int largest_larger_pool = 64;
constexpr int most_devices_of_larger_pool = 1'000'000;

// Plans over pools (pool/): what is generated.
// Unless it says otherwise, a figure is set, not tuned: no measurement backs it.

/// Up to so many devices estimates err most and forecasts take least: more is looked at. Tuned on: the adversary's 12 pools.
constexpr int small_pool = 40;
/// From so many devices on every estimate is dear. Tuned on: 100,000 devices of planner_benchmark speed.
constexpr int huge_pool = 10'000;
/// All columns of so many devices are looked at, and of a larger small pool those of parts with so many, in so many places at most.
/// Tuned on: 150 pools against enumeration (pool_property_test).
constexpr int few_devices = 8;
constexpr std::size_t places_of_few = 8, sub_pools_of_few = 24;
/// All cuts, where there are no more; one of few devices recomputes nothing that fills its memory by less than this, by an estimate.
constexpr std::size_t cuts_of_few = 40;
constexpr double surely_fits = 0.9;
/// Estimates of all columns: of few devices, and of parts.
constexpr std::int64_t most_of_all_columns = 40'000, some_of_all_columns = 12'000;
/// Estimates of the families of columns. Tuned on: planner_benchmark speed.
constexpr std::int64_t most_estimates(int devices) { return devices <= 1000 ? 120'000 : devices <= huge_pool ? 40'000 : 4'000; }
/// Depths: every one up to this, then a few.
constexpr int deepest_by_ones = 16;
/// Stages of one type in a chain of two types, and of all types.
constexpr int chain_lengths[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24};
constexpr int deepest_chain = 32;
/// Places up to which zones are given up one by one, and tried one by one.
constexpr std::size_t few_places = 12, some_places = 32;
/// All subsets of so many types work side by side.
constexpr int most_types_of_all_teams = 3;
constexpr int largest_microbatch_of_huge = 16;  ///< sequences
/// The part of the columns that is tried, too, where devices cost something.
constexpr double part_of_columns = 0.75;
/// Devices of a tensor-parallel group stand on so many nodes at most, and on twice as many only if a block takes no more than this of its
/// time; looked at with microbatches of this size, for compute and collectives grow with it alike.
constexpr int most_nodes_of_a_group = 8;
constexpr double worth_widening = 0.9;
constexpr int usual_microbatch = 4;
/// Over what is worth looking at: a candidate in 1F1B, to be tried under other schedules; a chain alone, for what is left over may help it.
constexpr double worth_other_schedules = 1.2, worth_filling_up = 1.2;

// What is estimated.

/// Of the memory: the forecast decides what is nearly too much.
constexpr double memory_doubt = 0.02;
/// Of a pass: the backward one at least; without weight gradients, where backward passes are split in halves.
constexpr double backward_share = 0.6, without_weight_gradients = 2.0 / 3, input_half = 0.5;
/// Nodes of a place that tell how many are joined: one that begins inside, one that is full, one more. Numbers of replicas above
/// `exact_counts` count with three leading bits. Tuned on: 100,000 devices; fewer nodes gave plans 2.4 % slower.
constexpr int telling_nodes = 3, exact_counts = 64;

// The shortlist.

/// Candidates that may be forecast at first. Tuned on: the published pools (narrower above 40 devices: the same plans).
constexpr std::size_t shortlist_length(int devices) {
  return devices <= small_pool ? 48 : devices <= 1000 ? 24 : devices <= huge_pool ? 12 : 3;
}
/// Of one shape, and of one shape with the same slots.
constexpr std::size_t most_of_a_shape = 4, most_of_slots = 2;
/// That break a limit, and that do not fit by little, up to this part of the memory.
constexpr std::size_t most_doubtful = 8, most_tight = 6;
constexpr double nearly_full = 1.15;
/// That miss least, one of each choice of devices, from which memory is spared where nothing fits; estimates and forecasts spent on that.
/// Tuned on: pairs of pools of pool_property_test that lost their plan.
constexpr std::size_t most_nearest = 8;
constexpr std::int64_t most_forecasts_to_fit = 24;
constexpr std::int64_t most_estimates_to_fit(int devices) { return devices <= small_pool ? 10'000 : devices <= 1000 ? 2'000 : 200; }
/// Of a limit: estimates are closer than this, nearly always.
constexpr double surely_within = 0.93;
/// Times the best estimate; of small pools.
constexpr double hopeless = 1.15, hopeless_of_few = 1.25;

// The race of strata and local search.

/// How far an estimate may err: of a stratum that has not been forecast yet, of small pools, and of one that has (by the root of how
/// often). Tuned on: the adversary's 12 pools.
constexpr double unknown_stratum = 0.06, unknown_stratum_of_few = 0.12, known_stratum = 0.03;
/// What the mean of all strata weighs in a stratum's own, in forecasts.
constexpr int weight_of_all = 1;
/// The best of a depth, over the best of all, to be forecast.
constexpr double worth_a_look = 1.15;
/// Steps of a local search by estimates; zones up to which all that stands in one is moved to another.
constexpr int steps_of_polish = 40;
constexpr std::size_t most_zones_to_exchange = 8;
/// Forecasts of local search, its starts, and those over the best in large pools. Tuned on: the adversary's 12 pools and planner_benchmark
/// speed.
constexpr int most_improvements(int devices) {
  return devices <= small_pool ? 240 : devices <= 64 ? 60 : devices <= 1000 ? 40 : devices <= huge_pool ? 12 : 6;
}
constexpr std::ptrdiff_t most_starts = 6;
constexpr double worth_improving = 1.1;
/// Passes of microbatches that it may simulate.
constexpr std::int64_t passes_of_improvement = 12'000, passes_of_improvement_of_few = 100'000;
/// A move is forecast whose corrected estimate is worse by no more; of a stratum that has not been forecast yet; of small pools.
constexpr double worth_forecasting = 1.01, unknown_worth_forecasting = 1.1, unknown_worth_forecasting_of_few = 1.3;
/// Up to so many devices the best of every trait that somebody may fix is looked at, too, and changes of shape are cut anew. Tuned on:
/// pools of planner_fixed_options; in 3 x 32 of planner_benchmark speed cutting anew takes a fifth more time for the same plan.
constexpr int pool_of_many_traits = 64;
/// Annealing: forecasts (of pools above `pool_of_many_traits` half as many as before it), restarts, how much worse a step may be at first,
/// changes at once and the chance of one more, blocks that change their stage, neighbours of which the best is forecast, draws until there
/// are so many, proposals without a forecast that end it. Left out where no plan can be better by more than `near_bound`. Tuned on: 80
/// pools of planner_adversary (docs/measurements/planner-quality.md) and planner_benchmark speed.
constexpr std::int64_t annealing_forecasts(int devices, std::int64_t before) {
  return devices <= pool_of_many_traits ? 100 : std::min<std::int64_t>(100, before / 2);
}
constexpr std::int64_t passes_of_annealing(int devices) {
  return devices <= pool_of_many_traits ? passes_of_improvement_of_few : passes_of_improvement;
}
/// Before it: forecasts of the best of every trait, up to so many times the best estimate.
constexpr std::int64_t most_forecasts_of_traits = 64;
constexpr double worth_trait = 1.3;
constexpr int annealing_rounds = 8, most_changes_at_once = 4, most_blocks_moved = 4;
constexpr double warmest = 0.03, one_more_change = 0.4, near_bound = 0.02;
constexpr int neighbours_of_a_proposal = 8, draws_of_a_proposal = 60, idle_proposals = 10;
constexpr std::uint64_t annealing_seed = 1;
/// Stages times kinds of columns up to which candidates are reshaped.
constexpr std::size_t most_reshaped = 128;

// Stages with replica counts of their own.

/// Beyond, a forecast takes as long as all others together: few replicas are alike.
constexpr int uneven_devices = 256;
constexpr std::size_t uneven_places = 4;
/// Stages of a team, rounds of degrees and microbatches place by place, orders of places.
constexpr int uneven_splits = 4, uneven_rounds = 2;
constexpr std::size_t uneven_orders = 48;
/// Candidates that are cut: the first over the devices, within the others. Tuned on: 3 x 32 of planner_benchmark speed.
constexpr int uneven_cuts = 40'000, least_uneven_cuts = 200, largest_uneven_cuts = 1'500;
/// Of bisection for the pace of a cut; times the floor that most cuts come to; times all layers on one stage that none exceeds.
constexpr int uneven_halvings = 12;
constexpr double likely_uneven_cut = 1.25, slowest_uneven_cut = 3;
/// Candidates that are forecast, and passes of microbatches that are simulated one by one: of small pools, of large ones.
constexpr std::size_t uneven_forecasts = 8;
constexpr std::int64_t uneven_passes_of_few = 3'000, uneven_passes = 1'000;
/// Estimates err by some per cent, mostly to the good.
constexpr double uneven_error = 1.03;

// Plans under closed formulas (rules/). Steps are about nanoseconds of work, whatever the machine; a search ends after so many of them.
// Unless it says otherwise, a figure is set, not tuned: no measurement backs it.

/// Of a search, of one node at once, of the first guesses, of a node that could still be halved, and of a likely start.
/// Tuned on: planner_benchmark speed and rules_scale_test (docs/measurements/planner.md).
constexpr std::int64_t rules_steps = 500'000'000, rules_steps_at_once = rules_steps / 8, rules_steps_of_guessing = rules_steps / 8,
                       rules_steps_of_a_node = 5'000'000, rules_steps_of_a_start = 3'000'000;
/// That are still spent once a part was given up whose bound is below the best plan.
constexpr std::int64_t rules_steps_after_a_gap = 200'000'000;
/// What is counted for one plan worked out, stage listed, stage relaxed, run of equal stages, round of multipliers over a stage, partial
/// plan made, two of them compared: so that a step is about a nanosecond.
constexpr std::int64_t rules_steps_of_a_plan = 2'000, rules_steps_of_listing = 150, rules_steps_of_a_move = 5, rules_steps_of_a_run = 4,
                       rules_steps_of_a_round = 6, rules_steps_of_a_label = 100, rules_steps_of_a_comparison = 15;
/// A node that promises no more than this part of the value is enumerated, not halved.
constexpr double rules_narrow = 1e-3;
/// Shapes of a node that are turned into plans without a better one coming of it: a first look, a long one.
constexpr int rules_few_in_vain = 10, rules_most_in_vain = 300;
/// Partial plans in memory at once.
constexpr std::size_t rules_labels = 300'000;
/// From so many groups of devices on they are first bounded together; with more than so many no stage mixes two.
constexpr std::size_t rules_many_groups = 3, rules_mixed_groups = 4;
/// The model's layers, at most: tables grow with their square.
constexpr int rules_layers = 256;
/// All assignments of so many devices are tried, where there are no more ways to run a replica.
constexpr int rules_few_devices = 9;
constexpr std::size_t rules_few_choices = 12;
/// Zones are of one region among which a message of so many bytes takes at most this times what it takes inside; more regions are one.
constexpr double rules_far = 2, rules_message = 1e7;
constexpr int rules_regions = 4;
/// States of dynamic programs: of all resources and sides, of the coarse bound, of one resource; without and with weighted resources.
constexpr std::int64_t rules_states = 4096, rules_coarse_states = 40, rules_plain_states = 512, rules_weighted_units = 256;
constexpr int rules_units = 2000, rules_finest_weights = 12, rules_coarse_weights = 4;
/// Rounds of multipliers, and how far beyond what they aim at they go.
constexpr int rules_rounds_of_multipliers = 5;
constexpr double rules_beyond = 1.05;
/// Likely starts that are tried at once, and after them; among how many, at how many paces; up to this times the likeliest value.
constexpr std::size_t rules_likely_starts = 4, rules_more_likely_starts = 40, rules_starts_looked_at = 4000;
constexpr int rules_paces = 60;
constexpr double rules_hopeful = 1.4;
/// Ways in which tensor parallelism is guessed to share the gradients.
constexpr double rules_likely_shares = 2;
/// Up to this times the best value, layers are moved and zones exchanged.
constexpr double rules_worth_moving = 1.1, rules_worth_improving = 1.03;
/// Rounds of exchanging zones, entries up to which that is tried between regions, and what another region counts for in a stage's distance.
constexpr int rules_rounds_of_swaps = 30;
constexpr std::size_t rules_entries_to_swap = 16;
constexpr double rules_other_region = 1e-3;
/// Entries of which all orders are tried, orders of more of them, and entries whose rings are looked at link by link.
constexpr std::size_t rules_entries_of_orders = 5, rules_entries_of_rings = 8;
constexpr int rules_orders = 8;

// Why a plan lost (explain.cpp): a change of an activity that is told by itself, and what is left then, as shares of the difference.
constexpr double told_change = 0.2, told_rest = 0.05;

}  // namespace flotilla::search::tuning
