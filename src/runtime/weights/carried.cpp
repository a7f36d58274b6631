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

/// Whose folder a model is: what others own is copied only from where its owner can have put it.
struct ModelFolder {
  fs::path real;
  std::uint32_t owner = 0;

  explicit ModelFolder(const fs::path& folder)
      : real{fs::canonical(folder)}, owner{files::facts_of(real).value_or(files::FileFacts{}).owner} {}

  /// A link may lead to other files of the folder's owner, and to the blobs of the hub's cache: who planted it could not read more.
  void require_its_own(const fs::path& file, std::uint32_t owner_of_file, const fs::path& at) const {
    const bool in_hub = real.parent_path().filename() == "snapshots" && at.parent_path() == real.parent_path().parent_path() / "blobs";
    FLOTILLA_REQUIRE(owner_of_file == owner || in_hub || at.parent_path() == real, ErrorKind::bad_input, file.string(), ": is a link to ",
                     at.string(), ", which belongs to another user than the model's folder, and is not copied; put the file itself there");
  }
};

}  // namespace

std::filesystem::path carried_folder(const std::filesystem::path& run) { return run / "pretrained"; }

std::vector<std::string> carry(const std::filesystem::path& model, const std::filesystem::path& to) {
  files::make_own_folder(to);
  const ModelFolder folder{model};
  std::vector<std::string> found;
  for (const char* name : names) {
    if (!files::facts_of(model / name)) continue;
    const auto file = model / name;
    files::copy_text(file, to / name, [&](std::uint32_t owner, const fs::path& at) { folder.require_its_own(file, owner, at); });
    found.emplace_back(name);
  }
  return found;
}

}  // namespace flotilla::weights
