#include "files/fuzz.hpp"
#include "flotilla/slurm/site.hpp"

/// The answers, each ended by a zero byte. Run: slurm_site_fuzz -max_len=16384 tests/slurm/corpus/site
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flotilla::slurm;
  return flotilla::files::testing::feed(data, size, [](std::string_view text) {
    SiteAnswers answers;
    for (const auto& question : site_questions()) {
      const auto end = std::min(text.find('\0'), text.size());
      answers.*question.answer = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    read_site(answers);
    read_jobs(answers.details);
  });
}
