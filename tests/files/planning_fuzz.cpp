#include "flotilla/files/planning_file.hpp"

#include "files/fuzz.hpp"

/// Run: files_planning_fuzz -max_len=65536 tests/files/corpus/planning
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flotilla::files::testing::feed(data, size, [](std::string_view text) { flotilla::files::planning_from_json(text, "input"); });
}
