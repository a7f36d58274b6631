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

  /// False where there is no such file.
  bool copy(const fs::path& file, const fs::path& to) const {
    if (!files::facts_of(file)) return false;
    files::copy_text(file, to, [&](std::uint32_t of_file, const fs::path& at) { require_its_own(file, of_file, at); });
    return true;
  }
};

}  // namespace

std::filesystem::path carried_folder(const std::filesystem::path& run) { return run / "pretrained"; }

fs::path tokenizer_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (files::facts_of(folder / name)) return folder / name;
  return {};
}

fs::path tokenizer_of_checkpoint(const fs::path& step) {
  return tokenizer_in(carried_folder(fs::absolute(step / "").lexically_normal().parent_path().parent_path()));
}

void carry_tokenizer(const fs::path& tokenizer, const fs::path& chat_template, const fs::path& to) {
  files::make_own_folder(to);
  const auto file = fs::absolute(tokenizer).lexically_normal();
  const ModelFolder folder{file.parent_path()};
  folder.copy(file, to / (file.extension() == ".model" ? "tokenizer.model" : "tokenizer.json"));
  for (const char* beside : {"tokenizer_config.json", "chat_template.jinja"}) folder.copy(file.parent_path() / beside, to / beside);
  if (chat_template.empty()) return;
  const auto named = fs::absolute(chat_template).lexically_normal();
  const bool config = named.extension() == ".json";
  std::error_code none;
  if (config) fs::remove(to / "chat_template.jinja", none);  // which would go before it
  ModelFolder{named.parent_path()}.copy(named, to / (config ? "tokenizer_config.json" : "chat_template.jinja"));
}

std::vector<std::string> carry(const std::filesystem::path& model, const std::filesystem::path& to) {
  files::make_own_folder(to);
  const ModelFolder folder{model};
  std::vector<std::string> found;
  for (const char* name : names)
    if (folder.copy(model / name, to / name)) found.emplace_back(name);
  return found;
}

}  // namespace flotilla::weights
