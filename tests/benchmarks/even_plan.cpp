// even_plan MODEL LENGTH BATCH DATA PIPELINE MICROBATCH FILE: writes the plan that frameworks of one degree everywhere would run.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "flotilla/files/plan_file.hpp"

int main(int count, char** words) {
  using namespace flotilla;
  if (count != 8) {
    std::fputs("even_plan MODEL LENGTH BATCH DATA PIPELINE MICROBATCH FILE\n", stderr);
    return 64;
  }
  try {
    const auto number = [&](int word) { return std::atoi(words[word]); };
    files::write_plan(
        words[7], plan::even_plan(model::built_in(words[1]), number(2), number(3), Precision::fp32, number(4), number(5), 1, number(6)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "even_plan: %s\n", error.what());
    return 65;
  }
}
