#include "files/fuzz.hpp"
#include "flotilla/slurm/slurm_cluster.hpp"

/// The answers, each ended by a zero byte. Run: slurm_slurm_cluster_fuzz -max_len=16384 tests/slurm/corpus/site
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flotilla::slurm;
  return flotilla::files::testing::feed(data, size, [](std::string_view text) {
    SlurmAnswers answers;
    for (const auto& question : slurm_queries()) {
      const auto end = std::min(text.find('\0'), text.size());
      answers.*question.answer = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    read_slurm_cluster(answers);
    read_jobs(answers.details);
  });
}
