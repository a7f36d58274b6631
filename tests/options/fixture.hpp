#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/options/table.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::options {

using tests::error_of;

enum class Colour { red, green };

inline Choice<Colour> colours() {
  return {{"red", "green"},
          [](const std::string& name) { return name == "red" ? Colour::red : Colour::green; },
          [](const Colour& c) { return c == Colour::red ? "red" : "green"; }};
}

/// A struct as rooms have them, with one field of every type.
struct Fields {
  int steps = 100;
  std::int64_t seed = 7;
  double rate = 6e-4;
  std::optional<double> dropout;
  bool replan = false;
  std::string name = "gpt2";
  std::string file;
  std::vector<std::string> train;
  std::vector<int> cuts;
  Bytes memory{};
  Seconds deadline{10};
  BytesPerSecond limit{125e6};
  Colour colour = Colour::red;
  std::int64_t batch = 8;
  std::optional<UsDollars> budget;
  Share slack{0.01};
};

inline Table table_of(Fields& f) {
  Table t;
  t.section("training", "The run");
  t.add("training.steps", &f.steps, "iterations to run", {.minimum = 1});
  t.add("training.seed", &f.seed, "seed of everything random");
  t.add("training.global-batch", &f.batch, "sequences in a step", {.minimum = 1, .maximum = 4096});
  t.add("training.learning-rate", &f.rate, "peak learning rate", {.above = 0.0, .below = 1.0});
  t.section("model", "The model");
  t.add("model.name", &f.name, "a built-in model");
  t.add("model.dropout", &f.dropout, "share of activations dropped", {.minimum = 0, .below = 1.0, .unset = "the model's own"});
  t.section("data", "Data");
  t.add("data.train", &f.train, "token files", {.value = "FILE"});
  t.section("plan", "The plan");
  t.add("plan.file", &f.file, "run this plan", {.value = "FILE", .alias = "plan", .letter = 'p'});
  t.add("plan.replan", &f.replan, "search again on resume", {.alias = "replan"});
  t.add("plan.cuts", &f.cuts, "layers at which stages begin", {.minimum = 0});
  t.section("device", "Devices");
  t.add("device.memory", &f.memory, "memory one device may use", {.unset = "what the machine has", .example = "4GiB"});
  t.add("device.deadline", &f.deadline, "silence after which a peer is lost", {.above = 0.0});
  t.add("device.link", &f.limit, "a link's rate");
  t.add("device.budget", &f.budget, "what it may cost", {.above = 0});
  t.add("device.slack", &f.slack, "a share", {.maximum = 1});
  t.add("device.colour", &f.colour, "a colour", colours());
  return t;
}

inline Error command_line_error(const std::vector<std::string>& arguments) {
  Fields fields;
  auto table = table_of(fields);
  return error_of([&] { table.read_command_line(arguments); });
}

inline Error toml_error(const std::string& toml) {
  Fields fields;
  auto table = table_of(fields);
  return error_of([&] { table.read_toml(toml, "job.toml"); });
}

}  // namespace flotilla::options
