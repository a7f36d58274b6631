#include "flotilla/plan/stage_names.hpp"

#include "flotilla/base/text.hpp"

namespace flotilla::plan {

std::string stages_of_device_in_words(const Plan& plan, int stage) {
  std::string words = text(plan.chunks > 1 ? "stages " : "stage ", stage);
  for (int s = stage + own_stages(plan); s < static_cast<int>(plan.stages.size()); s += own_stages(plan)) words += text(", ", s);
  return words;
}

}  // namespace flotilla::plan
