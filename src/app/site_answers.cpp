#include "app/site_answers.hpp"

#include <filesystem>

#include "flotilla/base/error.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/slurm/run_program.hpp"

namespace flotilla::app {

namespace fs = std::filesystem;

std::string ask_site(const SubmitSettings& s, const std::string& file, const std::vector<std::string>& command) {
  if (!s.answers.empty()) return files::read_text(fs::path{s.answers} / file);
  auto answer = slurm::answer_of(command);
  if (s.record.empty()) return answer;
  std::error_code failed;
  fs::create_directories(s.record, failed);
  FLOTILLA_REQUIRE(!failed, ErrorKind::unavailable, s.record, ": ", failed.message());
  files::write_text(fs::path{s.record} / file, answer);
  return answer;
}

slurm::SiteAnswers site_answers(const SubmitSettings& s) {
  slurm::SiteAnswers answers;
  for (const auto& question : slurm::site_questions()) answers.*question.answer = ask_site(s, question.file, question.command);
  return answers;
}

}  // namespace flotilla::app
