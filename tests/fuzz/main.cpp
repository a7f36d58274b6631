// A structure-aware fuzzer over the program's inputs and commands: an intact input is damaged, the program reads it, and nothing but
// success or one line may come of it. docs/CONTRIBUTING.md says how to run it and what to do with a finding.
#include <getopt.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "fuzz/inputs.hpp"
#include "fuzz/intact.hpp"
#include "support/temporary_folder.hpp"
#include "support/tier.hpp"

namespace flotilla::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t largest_kept = 16 << 20;

struct Settings {
  std::string kind;    ///< empty: all
  int executions = 0;  ///< 0: as many as the tier has
  int seed = 1;
  int seconds = 20;     ///< of a processor that one execution may take
  fs::path keep;        ///< where inputs that led to findings are copied; empty: nowhere
  bool places = false;  ///< whether a message has to name the damaged input, too
  fs::path cases;       ///< a folder of kept cases to repeat in place of new damage
  fs::path make;        ///< where to write intact inputs, and nothing else
  fs::path intact;      ///< where intact inputs were written before; empty: they are made anew, which takes as long as 1,000 executions
};

[[noreturn]] void usage() {
  std::cerr << "usage: flotilla_fuzz [--kind NAME] [--executions N] [--seed N] [--seconds N] [--keep FOLDER] [--cases FOLDER] [--places]\n"
               "       [--intact FOLDER], after flotilla_fuzz --make-intact FOLDER\nkinds:";
  for (const auto& kind : input_kinds()) std::cerr << ' ' << kind.name;
  std::cerr << '\n';
  std::exit(64);
}

Settings settings_from(int argc, char** argv) {
  static const option names[]{{"kind", 1, nullptr, 'k'},    {"executions", 1, nullptr, 'n'},  {"seed", 1, nullptr, 's'},
                              {"seconds", 1, nullptr, 't'}, {"keep", 1, nullptr, 'o'},        {"cases", 1, nullptr, 'c'},
                              {"places", 0, nullptr, 'p'},  {"make-intact", 1, nullptr, 'm'}, {"intact", 1, nullptr, 'i'},
                              {nullptr, 0, nullptr, 0}};
  Settings settings;
  for (int c; (c = getopt_long(argc, argv, "", names, nullptr)) != -1;) {
    if (c == 'k')
      settings.kind = optarg;
    else if (c == 'n')
      settings.executions = std::atoi(optarg);
    else if (c == 's')
      settings.seed = std::atoi(optarg);
    else if (c == 't')
      settings.seconds = std::atoi(optarg);
    else if (c == 'o')
      settings.keep = optarg;
    else if (c == 'c')
      settings.cases = optarg;
    else if (c == 'p')
      settings.places = true;
    else if (c == 'm')
      settings.make = optarg;
    else if (c == 'i')
      settings.intact = fs::absolute(optarg);
    else
      usage();
  }
  const bool known = settings.kind.empty() || std::ranges::find(input_kinds(), settings.kind, &InputKind::name) != input_kinds().end();
  if (!known || optind < argc || settings.executions < 0) usage();
  if (!settings.intact.empty() && !fs::is_directory(settings.intact)) {
    std::cerr << settings.intact.string() << ": no folder of intact inputs; flotilla_fuzz --make-intact FOLDER makes one\n";
    std::exit(69);
  }
  return settings;
}

std::string command_of(const Invocation& invocation) {
  std::string line;
  for (const auto& [name, value] : invocation.environment) line += name + "=" + in_quotes(value) + " ";
  line += "flotilla";
  for (const auto& word : invocation.arguments) line += " " + in_quotes(word);
  return line;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A kept case is a folder of files that take the place of intact ones, with the words of the command line in `arguments` and NAME=value
/// lines in `environment`, where there are any.
Invocation invocation_of(const fs::path& kept, const fs::path& here) {
  Invocation invocation{lines_of(kept / "arguments"), {}, here};
  for (const auto& line : lines_of(kept / "environment")) {
    const auto equals = line.find('=');
    invocation.environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return invocation;
}

class Fuzzer {
 public:
  explicit Fuzzer(Settings settings) : settings_{std::move(settings)} {
    if (settings_.intact.empty()) write_intact_inputs(intact());
  }

  /// Repeats the kept cases below a folder. Returns the number of those with findings.
  int repeat(const fs::path& cases) {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator{cases}) all.push_back(entry.path());
    std::ranges::sort(all);
    int found = 0;
    for (const auto& kept : all) found += repeat_one(kept) ? 1 : 0;
    std::cout << all.size() << " kept cases, " << found << " with findings" << std::endl;
    return all.empty() ? 1 : found;
  }

  /// Returns the number of executions with findings.
  int run(const InputKind& kind) {
    int found = 0;
    const int executions = settings_.executions > 0 ? settings_.executions : tests::of_tier(kind.usual, kind.before_a_release);
    for (int i = 0; i < executions; ++i) found += run_one(kind, i) ? 1 : 0;
    std::cout << kind.name << ": " << executions << " executions, " << found << " with findings" << std::endl;
    return found;
  }

 private:
  fs::path intact() const { return settings_.intact.empty() ? folder_ / "intact" : settings_.intact; }

  /// One number for an execution, so that each can be repeated alone: its seed is the first of its run plus its index.
  bool run_one(const InputKind& kind, int index) {
    const auto here = prepare(kind);
    Dice dice{settings_.seed + index};
    const auto invocation = kind.damage(here, dice);
    if (sound(invocation, text(kind.name, " --seed ", settings_.seed + index))) return false;
    if (!settings_.keep.empty()) keep(here, kind, settings_.seed + index);
    return true;
  }

  bool repeat_one(const fs::path& kept) {
    const auto here = folder_ / "here";
    fs::remove_all(here);
    fs::copy(intact(), here, fs::copy_options::recursive);
    fs::copy(kept, here, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    return !sound(invocation_of(kept, here), kept.filename().string());
  }

  /// Prints what was found.
  bool sound(const Invocation& invocation, const std::string& name) const {
    const auto outcome = execute(invocation, settings_.seconds);
    auto found = findings(invocation, outcome);
    if (settings_.places)
      for (const auto& line : unnamed_inputs(invocation, outcome)) found.push_back("names no input: " + line);
    if (found.empty()) return true;
    std::cout << name << ": " << command_of(invocation) << '\n';
    for (const auto& line : found) std::cout << "  " << printable(line, 300) << '\n';
    return false;
  }

  fs::path prepare(const InputKind& kind) const {
    const auto here = folder_ / "here";
    fs::remove_all(here);
    fs::create_directories(here);
    for (const auto& name : kind.needs) fs::copy(intact() / name, here / name, fs::copy_options::recursive);
    return here;
  }

  /// Regular files only, and no sparse giants: the seed makes the others anew.
  void keep(const fs::path& here, const InputKind& kind, int seed) const {
    const auto to = settings_.keep / (kind.name + "-" + std::to_string(seed));
    fs::remove_all(to);
    for (const auto& entry : fs::recursive_directory_iterator{here})
      if (entry.is_regular_file() && !entry.is_symlink() && entry.file_size() <= largest_kept) {
        const auto copy = to / fs::relative(entry.path(), here);
        fs::create_directories(copy.parent_path());
        fs::copy_file(entry.path(), copy);
      }
  }

  Settings settings_;
  tests::TemporaryFolder folder_;
};

int run(int argc, char** argv) {
  const auto settings = settings_from(argc, argv);
  if (!settings.make.empty()) {
    fs::remove_all(settings.make);
    write_intact_inputs(settings.make);
    return 0;
  }
  Fuzzer fuzzer{settings};
  if (!settings.cases.empty()) return fuzzer.repeat(settings.cases) == 0 ? 0 : 1;
  int found = 0;
  for (const auto& kind : input_kinds())
    if (settings.kind.empty() || settings.kind == kind.name) found += fuzzer.run(kind);
  return found == 0 ? 0 : 1;
}

}  // namespace
}  // namespace flotilla::fuzz

int main(int argc, char** argv) { return flotilla::fuzz::run(argc, argv); }
