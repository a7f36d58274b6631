#include "flotilla/options/table.hpp"

#include <algorithm>
#include <cctype>
#include <memory>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "option.hpp"
#include "value.hpp"

namespace flotilla::options {

using detail::Option;
using detail::Words;

Table::Table() = default;
Table::~Table() = default;
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(Table&&) noexcept = default;

void Table::section(std::string name, std::string title) { sections_.push_back({std::move(name), std::move(title)}); }

void Table::insert(Option option) {
  option.section = option.name.substr(0, option.name.rfind('.'));
  FLOTILLA_ASSERT(!sections_.empty() && sections_.back().name == option.section, option.name, " outside its section");
  FLOTILLA_ASSERT(!find(option.name), option.name, " added twice");
  FLOTILLA_ASSERT(option.details.letter == 0 || option.kind != detail::Kind::boolean, option.name, " is a flag with a letter");
  option.standard = option.show();
  options_.push_back(std::move(option));
}

template <class T>
void Table::bind(std::string name, T* target, std::string help, Details details) {
  using Shape = detail::FieldShape<T>;
  Option option;
  option.name = std::move(name);
  option.help = std::move(help);
  option.details = std::move(details);
  option.kind = detail::kind_of<typename Shape::Item>();
  option.list = Shape::list;
  option.optional = Shape::optional;
  option.prepare = [target](const Option& self, const Words& words) {
    auto value = std::make_shared<T>();
    Shape::read(self, words, *value);
    return [target, value] { *target = std::move(*value); };
  };
  option.show = [target] { return Shape::show(*target); };
  insert(std::move(option));
}

void Table::add(std::string name, bool* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }
void Table::add(std::string name, int* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }
void Table::add(std::string name, std::int64_t* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }
void Table::add(std::string name, double* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }
void Table::add(std::string name, std::optional<double>* t, std::string help, Details d) {
  bind(std::move(name), t, std::move(help), std::move(d));
}
void Table::add(std::string name, std::string* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }
void Table::add(std::string name, std::vector<std::string>* t, std::string help, Details d) {
  bind(std::move(name), t, std::move(help), std::move(d));
}
void Table::add(std::string name, std::vector<int>* t, std::string help, Details d) {
  bind(std::move(name), t, std::move(help), std::move(d));
}
void Table::add(std::string name, Bytes* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }
void Table::add(std::string name, Seconds* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }
void Table::add(std::string name, BytesPerSecond* t, std::string help, Details d) {
  bind(std::move(name), t, std::move(help), std::move(d));
}

void Table::add(std::string name, std::optional<UsDollars>* t, std::string help, Details d) {
  bind(std::move(name), t, std::move(help), std::move(d));
}
void Table::add(std::string name, Share* t, std::string help, Details d) { bind(std::move(name), t, std::move(help), std::move(d)); }

void Table::add_choice(std::string name, std::vector<std::string> names, Prepare prepare, std::function<std::string()> show,
                       std::string help, Details details) {
  Option option;
  option.name = std::move(name);
  option.help = std::move(help);
  option.details = std::move(details);
  option.kind = detail::Kind::choice;
  option.choices = std::move(names);
  option.prepare = [prepare = std::move(prepare)](const Option& self, const Words& words) {
    const auto& known = self.choices;
    if (std::find(known.begin(), known.end(), words.at(0)) != known.end()) return prepare(words[0]);
    throw detail::Fault{text("expected ", detail::kind_in_words(self), ", got ", in_quotes(words[0])), nearest(words[0], known)};
  };
  option.show = [show = std::move(show)] { return Words{show()}; };
  insert(std::move(option));
}

void Table::pass_over(const Table& other) {
  for (const auto& option : other.options_)
    if (!find(option.name)) foreign_.push_back(option.name);
  for (const auto& entries : other.entries_) foreign_.push_back(entries.name);
  for (const auto& section : other.sections_)
    if (std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return s.name == section.name; }) == sections_.end())
      foreign_sections_.push_back(section);
}

const Option* Table::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

namespace {

std::string source_of(const Option& option) {
  switch (option.origin) {
    case Origin::command_line: return "command line";
    case Origin::environment: return "environment";
    case Origin::job_file: return option.place;
    case Origin::standard: break;
  }
  return "default";
}

Setting setting_of(const Option& option) {
  Setting s;
  s.name = option.name;
  s.section = option.section;
  s.value_name = detail::value_name(option);
  s.kind = detail::kind_in_words(option);
  s.help = option.help;
  s.unset = option.details.unset;
  s.value = detail::join(option.show(), ",");
  s.default_value = detail::join(option.standard, ",");
  s.toml = detail::toml_value(option, option.show());
  s.origin = option.origin;
  s.source = source_of(option);
  s.environment = detail::environment_name(option.name);
  s.alias = option.details.alias;
  s.letter = option.details.letter;
  s.choices = option.choices;
  s.flag = option.kind == detail::Kind::boolean;
  s.list = option.list;
  return s;
}

}  // namespace

std::vector<Setting> Table::settings() const {
  std::vector<Setting> all;
  all.reserve(options_.size());
  for (const auto& option : options_) all.push_back(setting_of(option));
  return all;
}

Setting Table::describe(const std::string& name) const {
  if (const auto* option = find(name)) return setting_of(*option);
  std::vector<std::string> known;
  for (const auto& option : options_) known.push_back(option.name);
  throw Error{ErrorKind::usage, text("no such option: ", in_quotes(name), suggestion(name, known))};
}

bool Table::is_set(const std::string& name) const {
  const auto* option = find(name);
  return option != nullptr && option->origin != Origin::standard;
}

}  // namespace flotilla::options
