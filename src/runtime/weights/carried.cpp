#include "flotilla/weights/carried.hpp"

#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::weights {
namespace {

constexpr const char* names[] = {
    "config.json", "generation_config.json",  "tokenizer.json",    "tokenizer_config.json", "tokenizer.model", "spiece.model", "vocab.json",
    "merges.txt",  "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",   "LICENSE",         "LICENSE.txt",  "NOTICE"};

}  // namespace

std::filesystem::path carried_folder(const std::filesystem::path& run) { return run / "pretrained"; }

std::vector<std::string> carry(const std::filesystem::path& model, const std::filesystem::path& to) {
  files::make_folders(to);
  std::vector<std::string> found;
  for (const char* name : names) {
    if (!files::facts_of(model / name)) continue;
    files::write_text(to / name, files::read_text(model / name));
    found.emplace_back(name);
  }
  return found;
}

}  // namespace flotilla::weights
