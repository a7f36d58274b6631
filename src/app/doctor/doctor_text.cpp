#include <algorithm>

#include "app/doctor/doctor.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {

std::string to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::good: return "good";
    case Verdict::warning: return "warning";
    case Verdict::problem: return "problem";
    case Verdict::skipped: return "skipped";
  }
  return "";
}

std::string doctor_text(const std::vector<Finding>& findings, int width) {
  constexpr int indent = 11;
  std::string out;
  for (const auto& f : findings) {
    std::string mark = to_string(f.verdict);
    mark.resize(indent - 2, ' ');
    const auto more = [&](const char* key, const std::string& words) {
      if (!words.empty()) out += std::string(indent, ' ') + options::wrap(text(key, words), indent + 2, width - indent - 2) + "\n";
    };
    out += text(mark, "  ", options::wrap(text(f.check, ": ", f.finding), indent, width - indent), "\n");
    more("evidence: ", f.evidence);
    more("fix: ", f.mend);
  }
  const auto problems = std::ranges::count(findings, Verdict::problem, &Finding::verdict);
  return out + (problems == 0 ? "no problems found\n" : text(problems, problems == 1 ? " problem found\n" : " problems found\n"));
}

std::string doctor_json(const std::vector<Finding>& findings) {
  std::string list;
  for (const auto& f : findings) {
    files::JsonLine line;
    line.add("check", f.check)
        .add("verdict", to_string(f.verdict))
        .add("finding", f.finding)
        .add("evidence", f.evidence)
        .add("fix", f.mend);
    list += (list.empty() ? "" : ", ") + line.text();
  }
  const bool good = std::ranges::none_of(findings, [](const Finding& f) { return f.verdict == Verdict::problem; });
  files::JsonLine line;
  line.add("format", "flotilla-doctor").add("version", 1).add("good", good).add_json("findings", "[" + list + "]");
  return line.text() + "\n";
}

}  // namespace flotilla::app
