#include "slurm_answers.hpp"

#include <filesystem>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/slurm/run_program.hpp"

namespace flotilla::app {

namespace fs = std::filesystem;

namespace {

/// Most whom Slurm does not answer are not on a cluster's node.
std::string answer_of_site(const std::vector<std::string>& command) {
  try {
    return slurm::answer_of(command);
  } catch (const Error& error) {
    throw Error{error.kind(),
                text(error.what(), "; is this a login node of a Slurm cluster? Elsewhere: --dry-run --submit.answers FOLDER, ",
                     "which --dry-run --submit.record FOLDER writes there")};
  }
}

/// What one question brings where a site need not answer it: a site without accounting, an answer that was recorded before we asked for it.
std::string ask_if_answered(const SubmitSettings& s, const std::string& file, const std::vector<std::string>& command) {
  std::error_code none;
  if (!s.answers.empty() && !fs::exists(fs::path{s.answers} / file, none)) return "";
  try {
    return ask_slurm_cluster(s, file, command);
  } catch (const Error& error) {
    log::debug(command.front(), " says nothing: ", error.what());
    return "";
  }
}

}  // namespace

std::string ask_slurm_cluster(const SubmitSettings& s, const std::string& file, const std::vector<std::string>& command) {
  if (!s.answers.empty()) return files::read_text(fs::path{s.answers} / file);
  auto answer = answer_of_site(command);
  if (s.record.empty()) return answer;
  files::make_own_folder(s.record);
  files::write_text(fs::path{s.record} / file, answer);
  return answer;
}

slurm::SlurmCluster slurm_cluster_of(const SubmitSettings& s) {
  slurm::SlurmAnswers answers;
  for (auto question : slurm::slurm_queries()) {
    const auto cluster = question.of_cluster ? slurm::cluster_name(answers.configuration) : "";
    if (!cluster.empty()) question.command.push_back("cluster=" + cluster);
    answers.*question.answer = (question.optional ? ask_if_answered : ask_slurm_cluster)(s, question.file, question.command);
  }
  if (s.answers.empty()) return slurm::read_slurm_cluster(answers);
  try {
    return slurm::read_slurm_cluster(answers);
  } catch (const Error& error) {
    throw Error{error.kind(), text(s.answers, ": ", error.what())};
  }
}

}  // namespace flotilla::app
