#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flotilla/base/units.hpp"

/// One table of options; command line, job file, environment, help, man page and completion are readings of it.
///
/// A name is "section.key": `--section.key VALUE` on the command line, `[section]` / `key = VALUE` in the job file (TOML) and
/// FLOTILLA_SECTION_KEY in the environment. Command line beats environment beats job file beats default, in whatever order they are read.
namespace flotilla::options {

/// What is said about an option beside its name, target and help text. Limits of quantities are in bytes, seconds, bytes per second, US
/// dollars, parts of a whole.
struct Details {
  std::optional<double> minimum{};  ///< inclusive
  std::optional<double> maximum{};  ///< inclusive
  std::optional<double> above{};    ///< exclusive
  std::optional<double> below{};    ///< exclusive
  std::string value{};              ///< placeholder in help: "FILE", "N"; from the type when empty. FILE and DIRECTORY complete to paths
  std::string unset{};              ///< what the default stands for where it is 0 or empty: "automatic", "off"
  std::string example{};            ///< a value for messages, as on the command line; from the default or the type when empty
  std::string alias{};              ///< short spelling: "plan" gives --plan
  char letter = 0;                  ///< 'o' gives -o; not for flags
};

/// A closed set of values: its names and the two directions.
template <class E>
struct Choice {
  std::vector<std::string> names;
  std::function<E(const std::string&)> parse;  ///< called with one of `names` only
  std::function<std::string(const E&)> show;
};

/// Who set an option. Later ones win.
enum class Origin : std::uint8_t { standard, job_file, environment, command_line };

/// One option as it stands, for `doctor`, provenance and documentation. Texts are as one would write them on the command line; items
/// of a list are separated by commas.
struct Setting {
  std::string name;
  std::string section;
  std::string value_name;  ///< "N", "FILE", "SIZE", "fp32|bf16"
  std::string kind;        ///< "an integer of at least 1", "a size with its unit, such as 64MiB", "one of fp32, bf16"
  std::string help;
  std::string unset;
  std::string value;
  std::string default_value;
  std::string toml;  ///< the value as a job file would spell it; "" where it is unset and has no spelling
  Origin origin = Origin::standard;
  std::string source;       ///< "default", "job.toml:12:3", "environment", "command line"
  std::string environment;  ///< FLOTILLA_SECTION_KEY
  std::string alias;
  char letter = 0;
  std::vector<std::string> choices;
  bool flag = false;  ///< needs no value on the command line
  bool list = false;  ///< may be repeated on the command line
};

struct Section {
  std::string name, title;
};

namespace detail {
struct Option;
}

/// Binds names to fields of plain structs, which must outlive the table and stay where they are. Defaults are what the fields hold
/// when they are added.
class Table {
 public:
  Table();
  ~Table();
  Table(Table&&) noexcept;
  Table& operator=(Table&&) noexcept;

  /// Starts a group of help; its options follow.
  void section(std::string name, std::string title);

  void add(std::string name, bool* target, std::string help, Details = {});
  void add(std::string name, int* target, std::string help, Details = {});
  void add(std::string name, std::int64_t* target, std::string help, Details = {});
  void add(std::string name, double* target, std::string help, Details = {});
  void add(std::string name, std::optional<double>* target, std::string help, Details = {});
  void add(std::string name, std::string* target, std::string help, Details = {});
  void add(std::string name, std::vector<std::string>* target, std::string help, Details = {});
  void add(std::string name, std::vector<int>* target, std::string help, Details = {});
  void add(std::string name, Bytes* target, std::string help, Details = {});
  void add(std::string name, Seconds* target, std::string help, Details = {});
  void add(std::string name, BytesPerSecond* target, std::string help, Details = {});
  void add(std::string name, std::optional<UsDollars>* target, std::string help, Details = {});
  void add(std::string name, Share* target, std::string help, Details = {});
  template <class E>
  void add(std::string name, E* target, std::string help, Choice<E> choice, Details details = {}) {
    auto prepare = [target, choice](const std::string& word) { return [target, value = choice.parse(word)] { *target = value; }; };
    add_choice(
        std::move(name), choice.names, std::move(prepare), [target, choice] { return choice.show(*target); }, std::move(help),
        std::move(details));
  }

  /// A list of tables, [[section.key]] or [[name]] in the job file and nowhere else; help shows it behind the section that was begun last.
  /// `describe` adds the keys of one entry, "section.key.name" each, to a table that has this section.
  template <class T>
  void add_entries(std::string name, std::string title, std::vector<T>* target, std::function<void(Table&, T&)> describe) {
    const auto table_of = [name, title, describe](T& entry) {
      Table table;
      table.section(name, title);
      describe(table, entry);
      return table;
    };
    Entries entries{name, title, sections_.empty() ? "" : sections_.back().name, {}, {}, {}, {}, {}};
    entries.clear = [target] { target->clear(); };
    entries.append = [target, table_of] { return table_of(target->emplace_back()); };
    entries.keys = [sample = std::make_shared<T>(), table_of] { return table_of(*sample); };
    entries.all = [target, table_of] {
      std::vector<Table> tables;
      for (auto& entry : *target) tables.push_back(table_of(entry));
      return tables;
    };
    entries_.push_back(std::move(entries));
  }

  /// Arguments after the command's name. Returns those that are no options, in order; everything after "--" is one of them.
  /// Of an option that is given more than once the last value counts, and a line says so. Throws Error{usage}.
  std::vector<std::string> read_command_line(std::span<const std::string> arguments);
  /// A TOML file. Throws Error{bad_input}: "file:line:column: what was expected".
  void read_file(const std::string& path);
  /// The same from memory; `source` stands where the file's name would.
  void read_toml(std::string_view toml, const std::string& source);
  /// "NAME=value" entries, as in `environ`. A variable that is nearly an option's, or lies in one of the table's sections, is refused.
  /// Throws Error{bad_input}.
  void read_environment(std::span<const std::string> entries);

  /// Options of another command that may stand in the same job file and environment: passed over there, unknown on the command line.
  /// Call before reading. Names that this table has too stay its own.
  void pass_over(const Table& other);
  /// Of those, the ones that a job file or the environment gave, in the order they were met.
  const std::vector<std::string>& passed_over() const { return passed_; }

  const std::vector<Section>& sections() const { return sections_; }
  /// Every option as it stands, in the table's order.
  std::vector<Setting> settings() const;
  /// Lists of tables: what is one, and what stands in it.
  struct Entries {
    std::string name, title;
    std::string section;  ///< that help shows it behind
    std::function<void()> clear;
    std::function<Table()> append;            ///< the table of a new entry, until the next is added
    std::function<Table()> keys;              ///< of an entry with nothing said
    std::function<std::vector<Table>()> all;  ///< of the entries as they stand
    std::vector<std::string> places;          ///< of those that a job file gave: "job.toml:12:1"
  };
  const std::vector<Entries>& entries() const { return entries_; }
  /// One of them. Throws Error{usage} with the nearest name.
  Setting describe(const std::string& name) const;
  /// True where somebody set it.
  bool is_set(const std::string& name) const;

 private:
  using Prepare = std::function<std::function<void()>(const std::string&)>;
  void add_choice(std::string name, std::vector<std::string> names, Prepare, std::function<std::string()> show, std::string help, Details);
  template <class T>
  void bind(std::string name, T* target, std::string help, Details);
  void insert(detail::Option);
  const detail::Option* find(std::string_view name) const;

  std::vector<Section> sections_, foreign_sections_;
  std::vector<detail::Option> options_;
  std::vector<Entries> entries_;
  std::vector<std::string> foreign_, passed_;
};

/// This process's environment, "NAME=value" each.
std::vector<std::string> environment();

/// Of the processes that a launcher starts together, by their environment, the one that speaks where there is no world yet.
bool is_first_process();

/// "Boost 1.74.0, toml++ 3.3.0": what reads the options.
std::string library_version();

}  // namespace flotilla::options
