#pragma once
#include <filesystem>

/// Private: an exported file or folder appears whole or not at all.
namespace flotilla::weights {

/// A file or folder under another name beside its final one, gone with the value unless it was renamed.
class Unfinished {
 public:
  /// Throws Error{bad_input} where `final_name` exists.
  explicit Unfinished(const std::filesystem::path& final_name);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

  /// What the caller makes there.
  const std::filesystem::path& path() const { return path_; }
  /// Gives it its name. Throws Error{bad_input, temporary, unavailable} where that exists meanwhile or cannot be made.
  void finish() const;

 private:
  std::filesystem::path final_, path_;
};

}  // namespace flotilla::weights
