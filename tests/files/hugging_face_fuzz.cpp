#include "flotilla/files/hugging_face.hpp"

#include "files/fuzz.hpp"

/// Run: files_hugging_face_fuzz -max_len=65536 tests/files/corpus/hugging_face
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flotilla::files::testing::feed(
      data, size, [](std::string_view text) { flotilla::files::hugging_face_config_from_json(text, "input", "model"); });
}
