#include "fuzz/intact.hpp"

#include <fstream>
#include <stdexcept>

#include "flotilla/base/text.hpp"
#include "fuzz/execution.hpp"

namespace flotilla::fuzz {
namespace {

namespace fs = std::filesystem;

void run(const fs::path& folder, std::vector<std::string> arguments) {
  const auto outcome = execute({std::move(arguments), {}, folder}, 0);
  if (outcome.exit_code != 0) throw std::runtime_error{text("an intact input could not be made: ", outcome.err)};
}

void write_text(const fs::path& folder) {
  std::ofstream out{folder / "words.txt"};
  std::ofstream lines{folder / "lines.jsonl"};
  for (int line = 0; line < 400; ++line) {
    out << "line " << line << " of a text that nobody will read twice\n";
    if (line < 40)
      lines << R"({"id": )" << line << R"(, "text": "caf\u00e9 \ud83d\ude00 <|endoftext|> )"
            << std::string(static_cast<std::size_t>(line), 'x') << "\"}\n";
  }
}

void write_conversations(const fs::path& file) {
  std::ofstream out{file};
  for (int n = 0; n < 60; ++n)
    out << R"({"messages": [{"role": "user", "content": "What is )" << n << R"( plus 1?"}, {"role": "assistant", "content": "It is )"
        << n + 1 << "."
        << "\"}]}\n";
}

/// llm.c: a header of 256 integers (magic, version, count), then 16-bit tokens.
void write_llmc(const fs::path& file) {
  constexpr int count = 512;
  std::vector<std::int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = count;
  std::vector<std::uint16_t> tokens(count);
  for (int i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i % 200);
  std::ofstream out{file, std::ios::binary};
  out.write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size() * sizeof header[0]));
  out.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * sizeof tokens[0]));
}

void copy_seeds(const fs::path& folder) {
  const fs::path tests{FLOTILLA_TESTS_SOURCE};
  const auto recursive = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  fs::copy(tests / "fuzz" / "intact", folder, recursive);
  fs::copy(tests / "app" / "submit" / "testbed", folder / "site", recursive);
  fs::copy(tests / "data" / "fuzz" / "corpus", folder / "tokens", recursive);
  fs::copy_file(tests.parent_path() / "examples" / "tokenizer.json", folder / "tokenizer.json");
  fs::copy_file(tests.parent_path() / "examples" / "chat.jinja", folder / "chat.jinja");
  fs::copy_file(tests / "files" / "corpus" / "profile" / "library.json", folder / "library.json");
  fs::copy_file(tests / "files" / "corpus" / "hugging_face" / "llama.json", folder / "config.json");
}

}  // namespace

void write_intact_inputs(const fs::path& folder) {
  fs::create_directories(folder);
  copy_seeds(folder);
  write_text(folder);
  write_conversations(folder / "conversations.jsonl");
  write_llmc(folder / "tokens" / "intact.bin");
  run(folder, {"train", "train.toml"});
  fs::copy_file(folder / "run" / "profile.json", folder / "profile.json");
  run(folder, {"export", "hf", "run", "-o", "model", "--shard-size=200kB"});
  run(folder, {"export", "llmc", "run", "-o", "llmc.bin"});
  run(folder,
      {"tokenize", "--tokenizer=tokenizer.json", "--chat-template=chat.jinja", "conversations.jsonl", "--append-eod", "-o", "packed"});
  run(folder, {"train", "mixture.toml"});
  fs::remove_all(folder / "mixture-run");
  run(folder, {"plan", "job.toml", "--format=json", "-o", "planning.json"});
  run(folder, {"import", "sailor-plan", "published.json", "--model.name", "gpt2-tiny", "--training.global-batch", "8", "-o", "plan.json"});
  run(folder, {"simulate", "plan.json", "--format=json", "-o", "forecast.json"});
}

}  // namespace flotilla::fuzz
