#include "flotilla/slurm/host_list.hpp"

#include "files/fuzz.hpp"

/// Run: slurm_host_list_fuzz -max_len=256 tests/slurm/corpus/host_list
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flotilla::files::testing::feed(data, size, [](std::string_view text) { flotilla::slurm::expand_host_list(text, "input"); });
}
