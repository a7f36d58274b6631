#pragma once
#include <string>

namespace flotilla::probe {

/// "AMD EPYC 9654" from "AMD EPYC 9654 96-Core Processor": without what vendors repeat for every model (marks, core counts, clock rates).
std::string short_cpu_name(const std::string& cpu_model);

}  // namespace flotilla::probe
