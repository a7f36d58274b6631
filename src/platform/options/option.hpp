#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/options/table.hpp"

/// One row of the table, with its type taken away.
namespace flotilla::options::detail {

enum class Kind : std::uint8_t { boolean, integer, real, text, size, duration, rate, money, share, choice };

using Words = std::vector<std::string>;
using Commit = std::function<void()>;

struct Option {
  std::string name, section, help;
  Details details;
  Kind kind = Kind::text;
  bool list = false;
  bool optional = false;
  Words choices;
  /// Reads words (one, or any number for a list); the result stores the value. Throws Fault.
  std::function<Commit(const Option&, const Words&)> prepare;
  std::function<Words()> show;
  Words standard;  ///< what `show` gave at first
  Origin origin = Origin::standard;
  std::string place;  ///< "job.toml:12:3"; empty for the other origins

  std::string key() const { return name.substr(section.size() + 1); }
  bool quantity() const {
    return kind == Kind::size || kind == Kind::duration || kind == Kind::rate || kind == Kind::money || kind == Kind::share;
  }
};

/// A choice that stands for a flag with more to say: "true" is one of its names.
bool may_be_true(const Option&);

/// A value that cannot be taken: what is wrong with it, and what the user probably meant ("64MiB" for a bare 64), if anything.
struct Fault {
  std::string what;
  std::string meant;
};

/// Where a value is read from, for messages.
struct ValueSource {
  Origin origin = Origin::standard;
  std::string text;  ///< "job.toml:12:3"
};

/// Checks the words and stores them unless a stronger origin already spoke. Throws Error: usage for the command line, else bad_input.
void assign(Option&, const Words&, const ValueSource&);
/// Throws Error for a value that is wrong before its words can be looked at (a table where a number should stand).
[[noreturn]] void refuse(const Option&, const Fault&, const ValueSource&);

/// "training.steps" -> "FLOTILLA_TRAINING_STEPS".
std::string environment_name(std::string_view option_name);
/// "an integer of at least 1", "a size with its unit (B, kB, ...)".
std::string kind_in_words(const Option&);
/// "N", "SIZE", "fp32|bf16".
std::string value_name(const Option&);
/// A value as a job file spells it; "" when an optional is unset.
std::string toml_value(const Option&, const Words&);
std::string join(const Words&, std::string_view separator);
Words split(std::string_view text, char separator);
/// The known option that somebody means by `name`: the only one with its key, if its section is missing or another's ("steps",
/// "model.steps"), or the one that other trainers call so ("lr", "batch_size"). "": none.
std::string called_elsewhere(std::string_view name, const Words& known);

}  // namespace flotilla::options::detail
