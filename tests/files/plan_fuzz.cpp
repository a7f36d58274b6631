#include "flotilla/files/plan_file.hpp"

#include "files/fuzz.hpp"

/// Run: files_plan_fuzz -max_len=65536 tests/files/corpus/plan
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flotilla::files::testing::feed(data, size, [](std::string_view text) { flotilla::files::plan_from_json(text, "input"); });
}
