// What lowering makes of a plan: who talks to whom, how often each instruction runs, how much memory it takes.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/program.hpp"
#include "program/random_plan.hpp"

namespace flotilla::program::lower_test {
namespace {

plan::Plan even(int data, int pipeline, int tensor, int batch, int microbatch, plan::ScheduleKind kind = plan::ScheduleKind::one_f_one_b) {
  return plan::even_plan(model::built_in("gpt2-mini"), 32, batch, Precision::fp32, data, pipeline, tensor, microbatch, kind);
}

TEST(Lower, EveryInstructionRunsOncePerMicrobatchOrStep) {
  std::mt19937 random{3};
  for (int trial = 0; trial < 120; ++trial) {
    const auto plan = tests::random_plan(random);
    const auto program = lower(trial % 3 == 0 ? tests::in_chunks(plan, random) : plan, Runtime{});
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      const auto& c = program.classes[static_cast<std::size_t>(program.ranks[r].rank_class)];
      std::map<int, int> runs;
      for (const auto& issued : expand(program, Rank{static_cast<int>(r)})) ++runs[issued.instruction];
      for (std::size_t s = 0; s < c.instructions.size(); ++s) {
        int expected = c.instructions[s].per_microbatch ? c.microbatches : 1;
        if (const auto* message = c.instructions[s].as<MessageEnd>(); message != nullptr && !message->runs.empty()) {
          expected = 0;
          for (const auto& some : message->runs) expected += some.count;
        }
        ASSERT_EQ(runs[static_cast<int>(s)], expected) << c.instructions[s].name;
      }
    }
  }
}

TEST(Lower, AlikeRanksShareAClass) {
  EXPECT_EQ(lower(even(4, 1, 1, 16, 2), Runtime{}).classes.size(), 1u);
  EXPECT_EQ(lower(even(4, 2, 2, 16, 2), Runtime{}).classes.size(), 2u);
  EXPECT_EQ(lower(even(3, 1, 1, 16, 2), Runtime{}).classes.size(), 2u);  // 5, 5, 6 sequences
}

TEST(Lower, OneFOneBKeepsAtMostTheStagesLeftInFlight) {
  const auto program = lower(even(1, 3, 1, 12, 1), Runtime{});
  ASSERT_EQ(program.classes.size(), 3u);
  for (const auto& c : program.classes) {
    int ahead = 0, most = 0;
    const Rank rank{c.stage};
    for (const auto& i : expand(program, rank)) {
      const auto* work = c.instructions[static_cast<std::size_t>(i.instruction)].as<LayerOperation>();
      if (work == nullptr || work->layer != program.plan.stages[static_cast<std::size_t>(c.stage)].last_layer - 1) continue;
      if (work->operation == model::Operation::attention_forward) most = std::max(most, ++ahead);
      if (work->operation == model::Operation::attention_backward) --ahead;
    }
    EXPECT_LE(most, 3 - c.stage);
  }
  const auto piped = lower(even(1, 3, 1, 12, 1, plan::ScheduleKind::gpipe), Runtime{});
  EXPECT_GT(piped.classes[0].arena.count, program.classes[0].arena.count);
}

/// Of GPT-2's 16 rows a token, block and microbatch in flight 10 stay, beside one block's 6; full recomputation keeps 1 beside one
/// block's 15.
TEST(Lower, RecomputationKeepsLess) {
  const auto kept = [](plan::Recompute recompute) {
    auto plan = plan::even_plan(model::built_in("gpt2"), 64, 16, Precision::fp32, 1, 4, 1, 1);
    for (auto& stage : plan.stages) stage.recompute = recompute;
    const auto program = lower(plan, Runtime{});
    const auto& first = program.classes.front();
    EXPECT_EQ(first.stage, 0);
    return static_cast<double>(arena_breakdown(first)[static_cast<std::size_t>(Category::activations)].count);
  };
  const double none = kept(plan::Recompute::none), selective = kept(plan::Recompute::selective), full = kept(plan::Recompute::full);
  EXPECT_NEAR(selective / none, (3 * 4 * 10 + 6) / (3 * 4 * 16.0), 0.03);
  EXPECT_NEAR(full / none, (3 * 4 * 1 + 15) / (3 * 4 * 16.0), 0.05);
}

/// An even plan of `depth` devices in a row, each with `chunks` stages of two layers.
plan::Plan interleaved(int depth, int chunks, int microbatches) {
  auto model = model::built_in("gpt2-tiny");
  model.blocks = 2 * depth * chunks - 2;
  std::vector<int> cuts;
  for (int s = 0; s <= depth * chunks; ++s) cuts.push_back(2 * s);
  auto plan = plan::even_plan(model, 8, microbatches, Precision::fp32, 1, depth * chunks, 1, 1, plan::ScheduleKind::interleaved, cuts);
  plan.chunks = chunks;
  for (int s = depth; s < depth * chunks; ++s)
    plan.stages[static_cast<std::size_t>(s)].replicas = plan.stages[static_cast<std::size_t>(s % depth)].replicas;
  return plan;
}

/// (chunk, microbatch, backward) in the order of a rank's compute queue.
std::vector<std::tuple<int, int, bool>> passes(const Program& program, Rank rank) {
  std::vector<std::tuple<int, int, bool>> found;
  const auto& c = program.classes[static_cast<std::size_t>(program.ranks[rank.index()].rank_class)];
  for (const auto& i : expand(program, rank)) {
    const auto& instruction = c.instructions[static_cast<std::size_t>(i.instruction)];
    const auto* ours = instruction.as<LayerOperation>();
    const auto* theirs = instruction.as<LayerPass>();
    if (ours == nullptr && theirs == nullptr) continue;
    if (ours != nullptr && program.plan.model.is_head(ours->layer) && !instruction.backward) continue;  // forward, at the start of backward
    const std::tuple here{(ours != nullptr ? ours->layer : theirs->layer) / 2 / plan::own_stages(program.plan), i.microbatch,
                          instruction.backward};
    if (found.empty() || found.back() != here) found.push_back(here);
  }
  return found;
}

TEST(Lower, InterleavedPassesAreInNarayanansOrderWhereStagesAreDealtAlike) {
  for (const auto& [depth, chunks, microbatches] : {std::tuple{3, 2, 6}, {3, 4, 9}, {4, 2, 12}, {5, 3, 10}}) {
    const auto plan = interleaved(depth, chunks, microbatches);
    const auto ours = lower(plan, Runtime{}), theirs = lower(plan, runtime_named("megatron-lm"));
    for (int r = 0; r < depth; ++r) EXPECT_EQ(passes(ours, Rank{r}), passes(theirs, Rank{r})) << depth << " " << chunks << " rank " << r;
  }
}

TEST(Lower, InterleavedDevicesKeepOneWayThroughThePipelineForEveryOtherChunk) {
  const int depth = 4, chunks = 3;
  for (const int microbatches : {3, 4, 7, 13, 30}) {
    const auto program = lower(interleaved(depth, chunks, microbatches), Runtime{});
    for (int r = 0; r < depth; ++r) {
      int in_flight = 0, most = 0;
      for (const auto& [chunk, microbatch, backward] : passes(program, Rank{r})) most = std::max(most, in_flight += backward ? -1 : 1);
      EXPECT_EQ(most, std::min(chunks * microbatches, 2 * (depth - 1 - r) + (chunks - 1) * depth + 1)) << microbatches << " rank " << r;
    }
  }
}

TEST(Lower, ManyMicrobatchesThroughChunksAreLoops) {
  std::size_t steps = 0, issued_instructions = 0;
  const auto program = lower(interleaved(8, 2, 512), Runtime{});
  for (const auto& block : program.classes.front().blocks) steps += block.steps.size();
  issued_instructions = expand(program, Rank{0}).size();
  EXPECT_LT(3 * steps, issued_instructions);
}

/// 4 of those 16 rows (the input, two norms' outputs, the sum between) are whole on every member of a group that does not share its tokens.
TEST(Lower, SharedTokensAreKeptOnce) {
  const auto kept = [](int degree, bool shared) {
    auto plan = plan::even_plan(model::built_in("gpt2"), 64, 16, Precision::fp32, 1, 4, degree, 1);
    plan.sequence_parallel = shared;
    const auto program = lower(plan, Runtime{});
    return static_cast<double>(arena_breakdown(program.classes.front())[static_cast<std::size_t>(Category::activations)].count);
  };
  EXPECT_NEAR(kept(2, true) / kept(2, false), 8.0 / 10, 0.02);
  EXPECT_NEAR(kept(4, true) / kept(4, false), 4.0 / 7, 0.02);
  EXPECT_EQ(kept(1, true), kept(1, false));
}

TEST(Lower, SharedTokensChangeNothingInStagesOfOneDevice) {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 16, 8, Precision::fp32, 2, 2, 1, 1);
  const auto whole = lower(plan, Runtime{});
  plan.sequence_parallel = true;
  auto shared = lower(plan, Runtime{});
  EXPECT_EQ(shared.groups, whole.groups);
  ASSERT_EQ(shared.classes.size(), whole.classes.size());
  for (std::size_t c = 0; c < whole.classes.size(); ++c) {
    EXPECT_EQ(shared.classes[c].arena, whole.classes[c].arena);
    EXPECT_EQ(shared.classes[c].instructions, whole.classes[c].instructions);
    EXPECT_EQ(shared.classes[c].blocks, whole.classes[c].blocks);
  }
}

TEST(Lower, EachTensorHasOneOwnerPerElement) {
  std::mt19937 random{5};
  for (int trial = 0; trial < 50; ++trial) {
    const auto plan = tests::random_plan(random);
    const auto program = lower(trial % 2 ? tests::in_chunks(plan, random) : plan, Runtime{});
    std::vector<std::int64_t> owned(program.tensors.size());
    for (const auto& binding : program.ranks) {
      const auto& c = program.classes[static_cast<std::size_t>(binding.rank_class)];
      for (int t : binding.owned)
        owned[static_cast<std::size_t>(t)] +=
            plan::shard(program.tensors[static_cast<std::size_t>(t)], c.shape.tensor_parallel, binding.tensor_index).elements();
    }
    for (std::size_t t = 0; t < owned.size(); ++t) EXPECT_EQ(owned[t], program.tensors[t].elements()) << program.tensors[t].name;
  }
}

TEST(Lower, PartsHoldTheStagesTensorsOnce) {
  const auto program = lower(even(2, 2, 2, 8, 1), Runtime{});
  for (const auto& c : program.classes) {
    std::set<int> seen;
    for (const auto& part : c.parts)
      for (const auto& slot : part.slots) {
        EXPECT_TRUE(seen.insert(slot.tensor).second);
        EXPECT_LE(slot.offset + slot.elements, part.elements);
        EXPECT_GE(c.buffers[static_cast<std::size_t>(part.parameters)].size.count, 4 * part.elements);
      }
    const auto& stage = program.plan.stages[static_cast<std::size_t>(c.stage)];
    EXPECT_EQ(seen.size(), plan::tensors_of_stage(program.tensors, stage).size());
  }
}

TEST(Lower, EvaluationKeepsPersistentBuffersInPlace) {
  std::mt19937 random{11};
  for (int trial = 0; trial < 50; ++trial) {
    auto plan = tests::random_plan(random);
    if (trial % 2) plan = tests::in_chunks(plan, random);
    const auto training = lower(plan, Runtime{}), evaluation = lower_evaluation(plan, Runtime{}, 1 + trial);
    int sequences = 0;
    for (std::size_t r = 0; r < training.ranks.size(); ++r) {
      const auto& a = training.classes[static_cast<std::size_t>(training.ranks[r].rank_class)];
      const auto& b = evaluation.classes[static_cast<std::size_t>(evaluation.ranks[r].rank_class)];
      for (const auto& x : a.buffers)
        if (x.persistent) {
          const auto y = std::find_if(b.buffers.begin(), b.buffers.end(), [&](const Buffer& o) { return o.name == x.name; });
          ASSERT_NE(y, b.buffers.end()) << x.name;
          EXPECT_EQ(x.offset, y->offset) << x.name;
        }
      if (a.stage == 0 && evaluation.ranks[r].tensor_index == 0 && b.microbatches > 0)
        sequences += (b.microbatches - 1) * b.shape.sequences + b.last_sequences;
    }
    EXPECT_EQ(sequences, 1 + trial);
  }
}

TEST(Lower, ArenaIsNoLargerThanItsBuffersAndTheBreakdownSumsToIt) {
  std::mt19937 random{13};
  for (int trial = 0; trial < 50; ++trial)
    for (const auto& c : lower(tests::random_plan(random), Runtime{}).classes) {
      Bytes all{}, sum{};
      for (const auto& b : c.buffers) all += b.copies * b.stride;
      for (Bytes part : arena_breakdown(c)) sum += part;
      EXPECT_LE(c.arena, all);
      EXPECT_EQ(sum, c.arena);
    }
}

TEST(Lower, PlansThatTheRuntimeCannotExecuteAreRefused) {
  auto plan = even(2, 2, 1, 8, 1);
  plan.stages[1].replicas[1].devices.clear();
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.devices.clear();
  try {
    lower(plan, Runtime{});
    FAIL() << "lowered a plan without devices";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unavailable);
    EXPECT_NE(std::string{e.what()}.find("stages[0]"), std::string::npos) << e.what();
  }
}

TEST(Lower, IsAPureFunction) {
  std::mt19937 a{17}, b{17};
  for (int trial = 0; trial < 20; ++trial) EXPECT_EQ(lower(tests::random_plan(a), Runtime{}), lower(tests::random_plan(b), Runtime{}));
}

}  // namespace
}  // namespace flotilla::program::lower_test
