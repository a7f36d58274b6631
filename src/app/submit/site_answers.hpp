#pragma once
#include "app/common/submit_options.hpp"
#include "flotilla/slurm/site.hpp"

namespace flotilla::app {

/// The site's answers, recorded or asked for, and recorded where the options say so. Throws Error{unavailable} where Slurm's commands are
/// not there or the controller does not answer, Error{bad_input} for recorded ones that are not there.
slurm::SiteAnswers site_answers(const SubmitSettings&);

/// What Slurm says to one more command; with recorded answers what `file` holds.
std::string ask_site(const SubmitSettings&, const std::string& file, const std::vector<std::string>& command);

}  // namespace flotilla::app
