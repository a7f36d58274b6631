#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/files/json.hpp"
#include "flotilla/plan/plan.hpp"

/// Plans as JSON: docs/formats/plan.md. Readers throw Error{bad_input} with file, JSON pointer and what was expected, and return
/// only plans that plan::validate accepts.
namespace flotilla::files {

/// `forecast`: what the plan's forecast rests on, as options of flotilla simulate: {"simulate": {"runtime": "flotilla", ...}}; empty: not
/// said.
void write_plan(const std::filesystem::path&, const plan::Plan&, std::string_view forecast = {});
/// The same of a plan that was read: options of the sections `simulate` and `data` in TOML, those of `left_out` not; empty: not said.
std::string forecast_options_in(const Json& plan, const std::vector<std::string>& left_out = {});
plan::Plan read_plan(const std::filesystem::path&);

/// Indented, ends with a newline. The same plan gives the same text.
std::string plan_to_json(const plan::Plan&);
plan::Plan plan_from_json(std::string_view text, std::string_view source);
plan::Plan plan_from_json(const Json&);

/// The "model" object of a plan; also a built-in model's name.
std::string model_to_json(const model::Config&);
model::Config model_from_json(const Json&);

}  // namespace flotilla::files
