#include "flotilla/ingest/token_cache.hpp"

#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "encoding.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/compression/input_stream.hpp"
#include "flotilla/data/file_digest.hpp"
#include "flotilla/data/format.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "text_reader.hpp"

namespace flotilla::ingest {
namespace {

namespace fs = std::filesystem;

constexpr const char* folder_name = "flotilla-tokens";
constexpr std::chrono::milliseconds look_again{200};

/// An edit in place between the sampled blocks of a large file keeps its digest, but not its time of change.
std::string content_of(const fs::path& input) {
  std::error_code unknown;  // what is wrong with a file is said when it is opened
  return text(hex(data::file_digest(input)), " ", fs::last_write_time(input, unknown).time_since_epoch().count());
}

/// Fills one cache.
class TokenCache {
 public:
  TokenCache(const CacheOptions& options, const CacheEvents& events)
      : options_{options}, events_{events}, how_{fnv1a(files::read_text(options.tokenizer))} {
    for (const auto& part : {options.field, options.eod, chat_of(options.tokenizer, options.chat_template).identity()})
      how_ = fnv1a(text(part.size(), ":", part), how_);
    if (options.bad_lines != BadLines::refuse) how_ = fnv1a(bad_lines_names().at(static_cast<std::size_t>(options.bad_lines)), how_);
  }

  /// The token file of a text; nothing where it was stopped.
  std::optional<fs::path> entry(const fs::path& input) const {
    const auto content = content_of(input);
    const auto output = folder_of(input) / text(input.filename().string(), "-", hex(fnv1a(content, how_)));
    const auto index = fs::path{output} += ".idx";
    for (bool told = false; !files::facts_of(index);) {
      require_place(output.parent_path(), input);
      try {
        if (!make(input, output, content)) return std::nullopt;
      } catch (const OutputBusy&) {
        if (!std::exchange(told, true)) events_.waits(input);
        if (!events_.go_on({})) return std::nullopt;
        std::this_thread::sleep_for(look_again);
      }
    }
    require_trusted(output.parent_path(), files::FileType::folder, input);
    for (const char* suffix : {".bin", ".idx", ".mask"}) require_trusted(fs::path{output} += suffix, files::FileType::regular, input);
    return index;
  }

 private:
  /// Whoever wrote them, or their folder, chose what is trained on: this user, root, or who could change the text as well.
  static void require_trusted(const fs::path& tokens, files::FileType type, const fs::path& input) {
    const auto facts = files::facts_of(tokens), of_input = files::facts_of(fs::canonical(input));
    if (!facts) return;
    const bool trusted = facts->mine || facts->owner == 0 || (of_input && facts->owner == of_input->owner);
    FLOTILLA_REQUIRE(trusted && facts->type == type, ErrorKind::bad_input, tokens.string(), ": made by user ", facts->owner,
                     ", who may not write ", input.string(), "; name a folder of your own: data.cache = \"DIRECTORY\"");
  }

  fs::path folder_of(const fs::path& input) const { return options_.folder.empty() ? input.parent_path() / folder_name : options_.folder; }

  static void require_place(const fs::path& folder, const fs::path& input) {
    const auto advice = text("; the tokens of ", input.string(), " need a place: data.cache = \"DIRECTORY\"");
    try {
      files::make_own_folder(folder);
    } catch (const Error& error) {
      throw Error{error.kind(), error.what() + advice};
    }
    FLOTILLA_REQUIRE(::access(folder.c_str(), W_OK | X_OK) == 0, ErrorKind::unavailable, folder.string(), ": cannot be written", advice);
  }

  /// False where it was stopped.
  bool make(const fs::path& input, const fs::path& output, const std::string& content) const {
    TokenizeOptions options;
    options.tokenizer = options_.tokenizer;
    options.inputs = {input};
    options.output = output;
    options.field = options_.field;
    options.chat_template = options_.chat_template;
    options.append_eod = true;
    options.eod = options_.eod;
    options.threads = options_.threads;
    options.bad_lines = options_.bad_lines;
    options.content = content;
    bool begun = false;
    const auto report = tokenize(options, [&](const TokenizeProgress& progress) {
      if (!std::exchange(begun, true)) events_.begins(input);
      return events_.go_on(progress);
    });
    if (report.finished) events_.ends(input, report);
    return report.finished;
  }

  const CacheOptions& options_;
  const CacheEvents& events_;
  std::uint64_t how_;
};

}  // namespace

bool is_text(const fs::path& file) {
  FLOTILLA_REQUIRE(!fs::is_directory(file), ErrorKind::bad_input, file.string(), ": is a folder; expected a file, or a pattern such as ",
                   (file / "*.jsonl").string());
  if (is_json_lines(file)) return true;
  if (fs::exists(file) && compression::is_compressed(file)) return true;
  return data::detect_format(file) == data::Format::text;
}

std::optional<std::vector<fs::path>> cached_tokens(const CacheOptions& options, const std::vector<fs::path>& inputs,
                                                   const CacheEvents& events) {
  const TokenCache cache{options, events};
  std::vector<fs::path> files;
  for (const auto& input : inputs) {
    const auto file = is_text(input) ? cache.entry(input) : input;
    if (!file) return std::nullopt;
    files.push_back(*file);
  }
  return files;
}

}  // namespace flotilla::ingest
