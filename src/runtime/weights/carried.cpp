#include "flotilla/weights/carried.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* names[] = {
    "config.json", "generation_config.json",  "tokenizer.json",    "tokenizer_config.json", "tokenizer.model", "spiece.model", "vocab.json",
    "merges.txt",  "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",   "LICENSE",         "LICENSE.txt",  "NOTICE"};

/// A link may lead to the blobs of the hub's cache, and to other files of the model folder's owner: who planted it could not read more.
void require_of_model(const fs::path& file) {
  const auto facts = files::facts_of(file);
  if (facts->type != files::FileType::link) return;
  std::error_code nowhere;
  const auto folder = fs::canonical(file.parent_path()), target = fs::canonical(file, nowhere);
  FLOTILLA_REQUIRE(!nowhere, ErrorKind::bad_input, file.string(), ": is a link that leads nowhere; remove it, or put the file there");
  const auto of_folder = files::facts_of(folder), of_target = files::facts_of(target);
  const bool in_hub =
      folder.parent_path().filename() == "snapshots" && target.parent_path() == folder.parent_path().parent_path() / "blobs";
  const bool same = of_folder && of_target && of_target->owner == of_folder->owner;
  FLOTILLA_REQUIRE(in_hub || same, ErrorKind::bad_input, file.string(), ": is a link to ", target.string(),
                   ", which belongs to another user than the model's folder, and is not copied; put the file itself there");
}

}  // namespace

std::filesystem::path carried_folder(const std::filesystem::path& run) { return run / "pretrained"; }

std::vector<std::string> carry(const std::filesystem::path& model, const std::filesystem::path& to) {
  files::make_own_folder(to);
  std::vector<std::string> found;
  for (const char* name : names) {
    if (!files::facts_of(model / name)) continue;
    require_of_model(model / name);
    files::copy_text(model / name, to / name);
    found.emplace_back(name);
  }
  return found;
}

}  // namespace flotilla::weights
