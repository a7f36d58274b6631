// Another C++ program that uses installed rooms: plans, lowers and proves, without MPI.
#include <cstdio>

#include "flotilla/files/plan_file.hpp"
#include "flotilla/program/program.hpp"

int main() {
  using namespace flotilla;
  const auto plan = plan::even_plan(model::built_in("gpt2"), 1024, 16, Precision::bf16, 2, 2, 2, 1);
  const auto program = program::lower(files::plan_from_json(files::plan_to_json(plan), "memory"), program::Runtime{});
  program::require_valid(program);
  std::printf("%s: %zu classes for %zu ranks\n", plan::summary(plan).c_str(), program.classes.size(), program.ranks.size());
}
