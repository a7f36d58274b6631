#include "flotilla/session/control_document.hpp"

#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"

namespace flotilla::session {

std::filesystem::path control_file(const std::filesystem::path& run) { return run / "control.json"; }

std::string control_to_json(const plan::Plan& plan) {
  files::JsonLine line;
  line.add("format", "flotilla-control").add("version", 1).add_json("plan", files::plan_to_json(plan));
  return line.text() + "\n";
}

plan::Plan control_from_json(std::string_view text, std::string_view source) {
  const auto document = files::Json::parse(text, source);
  files::require_format(document, "flotilla-control", 1);
  document.expect_keys({"format", "version", "plan"});
  return files::plan_from_json(document.at("plan"));
}

}  // namespace flotilla::session
