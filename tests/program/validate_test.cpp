// The proof: random plans lower to programs that pass it, and each kind of broken program is refused under its own rule.
#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/program/program.hpp"
#include "program/random_plan.hpp"

namespace flotilla::program::validate_test {
namespace {

std::string first(const std::vector<Violation>& violations) { return violations.empty() ? "" : violations.front().what; }

bool broken(const Program& program, Violation::Rule rule) {
  for (const auto& violation : validate(program))
    if (violation.rule == rule) return true;
  return false;
}

Program pipeline_program(int stages = 2, int tensor = 1, int data = 1) {
  return lower(plan::even_plan(model::built_in("gpt2-tiny"), 16, 8 * data, Precision::fp32, data, stages, tensor, 1), Runtime{});
}

bool is_a(const Instruction& instruction, CollectiveKind kind) {
  const auto* collective = instruction.as<Collective>();
  return collective != nullptr && collective->kind == kind;
}

Instruction& instruction_named(Program& program, std::size_t c, const std::string& name) {
  for (auto& instruction : program.classes.at(c).instructions)
    if (instruction.name == name) return instruction;
  throw std::runtime_error{"no instruction " + name};
}

plan::Plan shared_or_not(plan::Plan plan, std::mt19937& random) {
  plan.shard_optimizer = tests::between(random, 0, 1) == 1;
  return plan;
}

Runtime anywhere(const plan::Plan& plan, std::mt19937& random) {
  Runtime runtime;
  runtime.placement = tests::any_placement(random, plan::rank_count(plan));
  return runtime;
}

TEST(Validate, RandomPlansPass) {
  std::mt19937 random{20260101};
  for (int trial = 0; trial < 300; ++trial) {
    const auto plan = shared_or_not(tests::random_plan(random), random);
    const auto runtime = anywhere(plan, random);
    ASSERT_EQ(first(validate(lower(plan, runtime))), "") << "trial " << trial << ": " << plan::summary(plan);
    const auto evaluation = lower_evaluation(plan, runtime, tests::between(random, 1, 2 * plan.global_batch));
    ASSERT_EQ(first(validate(evaluation)), "") << "trial " << trial << " evaluation: " << plan::summary(plan);
  }
}

TEST(Validate, PlansWhoseStagesAreDealtUnlikePass) {
  std::mt19937 random{20261122};
  for (int trial = 0; trial < 300; ++trial) {
    const auto plan = shared_or_not(tests::any_plan(random), random);
    const auto runtime = anywhere(plan, random);
    ASSERT_EQ(first(validate(lower(plan, runtime))), "") << "trial " << trial << ": " << plan::summary(plan);
    const auto evaluation = lower_evaluation(plan, runtime, tests::between(random, 1, 2 * plan.global_batch));
    ASSERT_EQ(first(validate(evaluation)), "") << "trial " << trial << " evaluation: " << plan::summary(plan);
  }
}

TEST(Validate, LongPlansWhoseStagesAreDealtUnlikePass) {
  std::mt19937 random{20261123};
  for (int trial = 0; trial < 2000; ++trial) {
    const auto plan = tests::long_plan(random);
    ASSERT_EQ(first(validate(lower(plan, Runtime{}))), "") << "trial " << trial << ": " << plan::summary(plan);
  }
}

/// Both programs of a plan are proved.
void expect_proved(const plan::Plan& plan, std::mt19937& random, const std::string& what) {
  ASSERT_EQ(first(validate(lower(plan, Runtime{}))), "") << what << ": " << plan::summary(plan);
  const auto evaluation = lower_evaluation(plan, Runtime{}, tests::between(random, 1, 2 * plan.global_batch));
  ASSERT_EQ(first(validate(evaluation)), "") << what << " evaluation: " << plan::summary(plan);
}

TEST(Validate, InterleavedPlansPass) {
  std::mt19937 random{20261124};
  int interleaved = 0;
  for (int trial = 0; trial < 150 && !HasFailure(); ++trial) {
    auto plan = tests::in_chunks(trial % 2 ? tests::any_plan(random) : tests::random_plan(random), random);
    if (plan.chunks == 1) continue;
    ++interleaved;
    expect_proved(plan, random, text("trial ", trial));
  }
  EXPECT_GT(interleaved, 60);
}

TEST(Validate, LongInterleavedPlansPass) {
  std::mt19937 random{20261125};
  for (int trial = 0; trial < 50 && !HasFailure(); ++trial) {
    auto plan = tests::long_plan(random);
    plan.model.blocks = 14;
    plan = tests::in_chunks(std::move(plan), random, 4);
    ASSERT_GT(plan.chunks, 1);
    expect_proved(plan, random, text("trial ", trial));
  }
}

TEST(Validate, EveryRemovedWaitThatMattersIsNoticed) {
  // Take away each wait between queues in turn: a program that still passes did not need it, and a needed one must be reported.
  const auto whole = pipeline_program(3, 2, 2);
  int needed = 0, waits = 0;
  for (std::size_t c = 0; c < whole.classes.size(); ++c)
    for (std::size_t s = 0; s < whole.classes[c].instructions.size(); ++s)
      for (std::size_t w = 0; w < whole.classes[c].instructions[s].waits.size(); ++w) {
        auto program = whole;
        auto& list = program.classes[c].instructions[s].waits;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(w));
        ++waits;
        if (broken(program, Violation::Rule::memory)) ++needed;
      }
  EXPECT_GT(waits, 50);
  // A few are implied by other waits (a reduction that follows one on the same queue, a zeroing before the first use).
  EXPECT_GT(needed, waits * 8 / 10);
}

void expect_removed_gathers_noticed(plan::ScheduleKind schedule) {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 15, 8, Precision::fp32, 1, 2, 2, 1, schedule);
  plan.sequence_parallel = true;
  for (auto& stage : plan.stages) stage.recompute = plan::Recompute::selective;
  const auto whole = lower(plan, Runtime{});
  ASSERT_EQ(first(validate(whole)), "");
  int gathers = 0;
  for (std::size_t c = 0; c < whole.classes.size(); ++c)
    for (std::size_t s = 0; s < whole.classes[c].instructions.size(); ++s) {
      const auto& instruction = whole.classes[c].instructions[s];
      if (!instruction.per_microbatch ||
          (!is_a(instruction, CollectiveKind::all_gather) && !is_a(instruction, CollectiveKind::reduce_scatter)))
        continue;
      ++gathers;
      // Of two gathers behind one operation the first is waited for by the second one's queue, and the second starts behind the first.
      const auto& instructions = whole.classes[c].instructions;
      const auto pairs = [&](std::size_t a, std::size_t b) {
        return b < instructions.size() && is_a(instructions[a], CollectiveKind::all_gather) &&
               is_a(instructions[b], CollectiveKind::all_gather) && instructions[a].waits == instructions[b].waits;
      };
      const bool first_of_two = pairs(s, s + 1), second_of_two = s > 0 && pairs(s - 1, s);
      auto before = whole;  // it begins before its operand is made
      before.classes[c].instructions[s].waits.clear();
      EXPECT_EQ(broken(before, Violation::Rule::memory), !second_of_two) << instruction.name;
      auto behind = whole;  // and who reads it does not wait
      for (auto& reader : behind.classes[c].instructions)
        std::erase_if(reader.waits, [&](const Wait& wait) { return wait.instruction == static_cast<int>(s) && wait.lag == 0; });
      EXPECT_EQ(broken(behind, Violation::Rule::memory), !first_of_two) << instruction.name;
    }
  EXPECT_GT(gathers, 20);
}

TEST(Validate, ARemovedWaitOfSharedTokensIsNoticed) {
  expect_removed_gathers_noticed(plan::ScheduleKind::one_f_one_b);
  expect_removed_gathers_noticed(plan::ScheduleKind::zero_bubble);
}

TEST(Validate, MissingMessageIsRefused) {
  auto program = pipeline_program();
  auto& blocks = program.classes[0].blocks;
  for (auto& block : blocks)
    std::erase_if(block.steps, [&](const Block::Step& s) {
      return program.classes[0].instructions[static_cast<std::size_t>(s.instruction)].sends() && block.repeat == 1;
    });
  EXPECT_TRUE(broken(program, Violation::Rule::message_order)) << first(validate(program));
}

TEST(Validate, MessageOfAnotherSizeIsRefused) {
  auto program = pipeline_program();
  instruction_named(program, 0, "send activation").as<MessageEnd>()->size.per_sequence += Bytes{4};
  EXPECT_TRUE(broken(program, Violation::Rule::message_order));
}

TEST(Validate, CycleAcrossRanksIsRefused) {
  // Both ends wait for the other's message before they send their own: the first stage sends its activation only after the gradient.
  auto program = pipeline_program();
  auto& c = program.classes[0];
  int send = -1, receive = -1;
  for (std::size_t s = 0; s < c.instructions.size(); ++s) {
    if (c.instructions[s].name == "send activation") send = static_cast<int>(s);
    if (c.instructions[s].name == "receive gradient") receive = static_cast<int>(s);
  }
  for (auto& block : c.blocks) {
    auto& steps = block.steps;
    auto at = [&](int instruction) {
      return std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.instruction == instruction; });
    };
    if (at(send) != steps.end() && at(receive) != steps.end() && block.repeat > 1) {
      // in the steady loop: the send of microbatch m+1 behind the receive of gradient m+1, which needs it
      const int microbatch = at(send)->microbatch;
      steps.erase(at(send));
      at(receive)->microbatch = microbatch;
      steps.push_back({send, microbatch});
      c.instructions[static_cast<std::size_t>(send)].waits.push_back({receive, 0});
    }
  }
  EXPECT_FALSE(validate(program).empty());
  bool cyclic = broken(program, Violation::Rule::cycle) || broken(program, Violation::Rule::message_order);
  EXPECT_TRUE(cyclic) << first(validate(program));
}

TEST(Validate, PureCycleIsRefused) {
  // Queue order alone: the last stage issues its gradient's send before the receive that it depends on can complete elsewhere.
  auto program = pipeline_program();
  auto& instructions = program.classes[1].instructions;
  int send = -1;
  for (std::size_t s = 0; s < instructions.size(); ++s)
    if (instructions[s].name == "send gradient") send = static_cast<int>(s);
  // The activation of microbatch m is received only once gradient m+1 has been sent: no order of things allows that.
  auto& receive = instruction_named(program, 1, "receive activation");
  receive.waits.push_back({send, 0});
  EXPECT_TRUE(broken(program, Violation::Rule::cycle)) << first(validate(program));
}

TEST(Validate, RendezvousCycleIsRefused) {
  // One rank sends before it receives and so does the other, each send waiting to end before the receive may start: passes for small
  // messages on real networks, hangs for large ones. Two idle stages swap a message by hand.
  auto program = pipeline_program();
  for (std::size_t c = 0; c < 2; ++c) {
    auto& rank_class = program.classes[c];
    rank_class.instructions.resize(0);
    rank_class.blocks.clear();
    Instruction send, receive;
    send.name = "send";
    send.queue = Queue::compute;  // a queue that runs one at a time: blocking
    MessageEnd end;
    end.peer = 0;
    end.channel = 7;
    end.size.per_sequence = {1 << 20};
    send.work = end;
    send.per_microbatch = false;
    receive = send;
    receive.name = "receive";
    receive.as<MessageEnd>()->direction = MessageEnd::Direction::receive;
    rank_class.instructions = {send, receive};
    rank_class.blocks = {{1, {{0, 0}, {1, 0}}}};
  }
  EXPECT_TRUE(broken(program, Violation::Rule::cycle)) << first(validate(program));
  std::swap(program.classes[1].blocks[0].steps[0], program.classes[1].blocks[0].steps[1]);
  EXPECT_EQ(first(validate(program)), "");
}

TEST(Validate, ReusedMemoryWithoutAnEdgeIsRefused) {
  for (const std::string name : {"activation 1", "gradient", "partial"}) {
    auto program = pipeline_program(2, 2);
    auto& buffers = program.classes[0].buffers;
    const auto victim = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.name == name; });
    const auto other = std::find_if(buffers.begin(), buffers.end(), [](const Buffer& b) { return b.name == "saved 1"; });
    ASSERT_NE(victim, buffers.end()) << name;
    victim->offset = other->offset;
    EXPECT_TRUE(broken(program, Violation::Rule::memory)) << name;
  }
}

TEST(Validate, TooFewCopiesAreRefused) {
  auto program = pipeline_program(3);
  for (auto& b : program.classes[0].buffers)
    if (b.name == "activation 1") b.copies = 1;
  EXPECT_TRUE(broken(program, Violation::Rule::memory));
}

TEST(Validate, GroupsInDifferentOrderAreRefused) {
  auto program = pipeline_program(1, 1, 2);
  auto second = program.classes[0];
  auto& closing = second.blocks.back().steps;
  std::vector<std::size_t> reductions;
  for (std::size_t i = 0; i < closing.size(); ++i)
    if (is_a(second.instructions[static_cast<std::size_t>(closing[i].instruction)], CollectiveKind::all_reduce)) reductions.push_back(i);
  ASSERT_GE(reductions.size(), 2u);
  std::swap(closing[reductions[0]], closing[reductions[1]]);
  program.classes.push_back(second);
  program.ranks[1].rank_class = 1;
  EXPECT_TRUE(broken(program, Violation::Rule::group_order)) << first(validate(program));
}

TEST(Validate, DanglingReferencesAreRefusedNotFollowed) {
  std::mt19937 random{7};
  const auto whole = pipeline_program(2, 2, 2);
  for (int trial = 0; trial < 200; ++trial) {
    auto program = whole;
    auto& c = program.classes[static_cast<std::size_t>(tests::between(random, 0, static_cast<int>(program.classes.size()) - 1))];
    auto& instruction = c.instructions[static_cast<std::size_t>(tests::between(random, 0, static_cast<int>(c.instructions.size()) - 1))];
    const int wild = tests::between(random, 0, 1) ? 1 << 20 : -7;
    switch (tests::between(random, 0, 4)) {
      case 0:
        if (instruction.accesses.empty()) continue;
        instruction.accesses[0].buffer = wild;
        break;
      case 1: instruction.waits.push_back({wild, 0}); break;
      case 2: c.blocks[0].steps[0].instruction = wild; break;
      case 3: program.ranks[static_cast<std::size_t>(tests::between(random, 0, 7))].rank_class = 1 << 20; break;
      default: c.buffers[0].offset = {wild}; break;
    }
    EXPECT_TRUE(broken(program, Violation::Rule::structure)) << "trial " << trial;
  }
}

}  // namespace
}  // namespace flotilla::program::validate_test
