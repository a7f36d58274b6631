#pragma once
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>

/// What tests of many rooms need.
namespace flotilla::tests {

/// In memory where that is offered and nobody chose another place: a disk that others keep busy makes tests slow.
inline std::filesystem::path fast_folder() {
  const bool in_memory = ::getenv("TMPDIR") == nullptr && ::access("/dev/shm", W_OK | X_OK) == 0;
  return in_memory ? std::filesystem::path{"/dev/shm"} : std::filesystem::temp_directory_path();
}

/// A folder of the test's own, gone with it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent = fast_folder()) {
    std::string pattern = (parent / "flotilla-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"no temporary folder"};
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  operator const std::filesystem::path&() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  /// Returns the file's path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream{path_ / name, std::ios::binary} << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string content(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream{file, std::ios::binary}.rdbuf();
  return out.str();
}

}  // namespace flotilla::tests
