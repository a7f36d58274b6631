#include <boost/program_options.hpp>

#include <algorithm>
#include <map>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/options/table.hpp"
#include "option.hpp"

namespace po = boost::program_options;

namespace flotilla::options {
namespace {

using detail::Option;
using detail::Words;

/// Every long spelling, with the index of its option.
std::map<std::string, std::size_t> spellings(const std::vector<Option>& options) {
  std::map<std::string, std::size_t> all;
  for (std::size_t i = 0; i < options.size(); ++i) {
    all[options[i].name] = i;
    if (!options[i].details.alias.empty()) all[options[i].details.alias] = i;
  }
  return all;
}

po::options_description describe_for_boost(const std::vector<Option>& options) {
  po::options_description all;
  const auto add = [&](const std::string& name) { all.add_options()(name.c_str(), po::value<std::string>(), ""); };
  for (const auto& option : options) {
    const std::string letter = option.details.letter ? std::string{","} + option.details.letter : "";
    add(option.name + (option.details.alias.empty() ? letter : ""));
    if (!option.details.alias.empty()) add(option.details.alias + letter);
  }
  return all;
}

/// A bare --flag means --flag=true; so does a choice that has "true" among its names, where none of its names follows. Not Boost's implicit
/// values: whether those swallow the next argument depends on its version.
std::vector<std::string> with_flags_spelled_out(std::span<const std::string> arguments, const std::vector<Option>& options) {
  const auto known = spellings(options);
  std::vector<std::string> out{arguments.begin(), arguments.end()};
  for (std::size_t i = 0; i < out.size() && out[i] != "--"; ++i) {
    const auto name = out[i].starts_with("--") ? known.find(out[i].substr(2)) : known.end();
    if (name == known.end()) continue;
    const auto& option = options[name->second];
    const bool value_follows = i + 1 < out.size() && std::ranges::count(option.choices, out[i + 1]) > 0;
    if (option.kind == detail::Kind::boolean || (detail::may_be_true(option) && !value_follows)) out[i] += "=true";
  }
  return out;
}

[[noreturn]] void refuse_unknown(const std::string& token, const std::map<std::string, std::size_t>& known) {
  std::vector<std::string> names;
  for (const auto& [name, index] : known) names.push_back("--" + name);
  const std::string option = token.substr(0, token.find('='));
  Words options;
  for (const auto& [name, index] : known) options.push_back(name);
  if (const auto ours = detail::called_elsewhere(option, options); !ours.empty())
    throw Error{ErrorKind::usage, text("unknown option ", in_quotes(option), "; did you mean '--", ours, "'?; --help lists them all")};
  throw Error{ErrorKind::usage, text("unknown option ", in_quotes(option), suggestion(option, names), "; --help lists them all")};
}

/// Boost says that something was missing or too much; we say which line would have been right.
[[noreturn]] void refuse_syntax(const po::error_with_option_name& error, const std::vector<Option>& options) {
  std::string name = error.get_option_name();
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  const auto known = spellings(options);
  const auto found = known.find(name);
  if (found == known.end()) throw Error{ErrorKind::usage, error.what()};
  const Option& option = options[found->second];
  detail::refuse(option, {"needs a value: " + detail::kind_in_words(option), {}}, {Origin::command_line, {}});
}

po::parsed_options parse(const std::vector<std::string>& arguments, const po::options_description& description,
                         const std::vector<Option>& options) {
  // Guessing is off: an abbreviation that is unique today is ambiguous tomorrow.
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    return po::command_line_parser{arguments}.options(description).style(style).allow_unregistered().run();
  } catch (const po::error_with_option_name& error) {
    refuse_syntax(error, options);
  } catch (const std::exception& error) {
    throw Error{ErrorKind::usage, error.what()};
  }
}

}  // namespace

std::vector<std::string> Table::read_command_line(std::span<const std::string> arguments) {
  const auto description = describe_for_boost(options_);
  const auto known = spellings(options_);
  std::vector<std::string> operands;
  std::map<std::size_t, Words> found;
  for (const auto& token : parse(with_flags_spelled_out(arguments, options_), description, options_).options) {
    if (token.position_key >= 0) {
      operands.insert(operands.end(), token.value.begin(), token.value.end());
      continue;
    }
    const auto name = known.find(token.string_key);
    if (token.unregistered || name == known.end())
      refuse_unknown(token.original_tokens.empty() ? token.string_key : token.original_tokens.front(), known);
    auto& words = found[name->second];
    words.insert(words.end(), token.value.begin(), token.value.end());
  }
  for (auto& [index, words] : found) {
    Option& option = options_[index];
    // As a shell's aliases and scripts with defaults have it.
    if (!option.list && words.size() > 1) {
      if (is_first_process())
        log::info("--", option.name, " is given ", words.size(), " times (", in_quotes(detail::join(words, ", ")),
                  "); the last one counts");
      words.erase(words.begin(), words.end() - 1);
    }
    // Numbers of a list may share one argument; file names may contain commas and do not.
    if (option.list && option.kind == detail::Kind::integer) words = detail::split(detail::join(words, ","), ',');
    detail::assign(option, words, {Origin::command_line, {}});
  }
  return operands;
}

}  // namespace flotilla::options
