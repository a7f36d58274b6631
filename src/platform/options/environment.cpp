#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/options/table.hpp"
#include "option.hpp"

namespace flotilla::options {
namespace {

constexpr std::string_view prefix = "FLOTILLA_";

bool in_a_section(std::string_view variable, const std::vector<Section>& sections) {
  return std::any_of(sections.begin(), sections.end(),
                     [&](const Section& section) { return variable.starts_with(detail::environment_name(section.name) + "_"); });
}

/// Others may keep variables of their own under our prefix (a module file's FLOTILLA_ROOT); what looks like an option must be one.
void refuse_if_meant(std::string_view variable, const std::vector<std::string>& known, const std::vector<Section>& sections) {
  const bool near = !nearest(variable, known).empty() && edit_distance(variable, nearest(variable, known)) <= 2;
  FLOTILLA_REQUIRE(!near && !in_a_section(variable, sections), ErrorKind::bad_input, printable(variable), ": there is no such option",
                   suggestion(variable, known));
}

}  // namespace

std::string detail::environment_name(std::string_view option_name) {
  std::string name{prefix};
  for (const char c : option_name)
    name += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : '_';
  return name;
}

void Table::read_environment(std::span<const std::string> entries) {
  std::vector<std::string> known, foreign;
  for (const auto& name : foreign_) foreign.push_back(detail::environment_name(name));
  for (const auto& option : options_) known.push_back(detail::environment_name(option.name));
  for (const std::string& entry : entries) {
    if (!entry.starts_with(prefix)) continue;
    const auto equals = std::min(entry.find('='), entry.size());
    const std::string variable = entry.substr(0, equals), value = equals < entry.size() ? entry.substr(equals + 1) : "";
    const auto found = std::find(known.begin(), known.end(), variable);
    if (found == known.end()) {
      const auto passed = std::find(foreign.begin(), foreign.end(), variable);
      if (passed != foreign.end()) {
        passed_.push_back(foreign_[static_cast<std::size_t>(passed - foreign.begin())]);
        continue;
      }
      refuse_if_meant(variable, known, sections_);
      continue;
    }
    detail::Option& option = options_[static_cast<std::size_t>(found - known.begin())];
    const detail::ValueSource place{Origin::environment, {}};
    if (value.empty()) detail::refuse(option, {"is set but empty; unset it or give it " + detail::kind_in_words(option), {}}, place);
    detail::assign(option, option.list ? detail::split(value, ',') : detail::Words{value}, place);
  }
}

bool is_first_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::string_view{rank} == "0";
  return true;
}

std::vector<std::string> environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace flotilla::options
