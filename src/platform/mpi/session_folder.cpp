#include "session_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"

namespace flotilla::mpi {
namespace {

constexpr const char* base_variable = "OMPI_MCA_orte_tmpdir_base";

std::filesystem::path base_folder(const Environment& environment) {
  for (const char* name : {base_variable, "TMPDIR", "TEMP", "TMP"})
    if (const char* value = environment(name); value != nullptr && *value != '\0') return value;
  return "/tmp";
}

std::string short_host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const std::string whole = name.data();
  return whole.substr(0, whole.find('.'));
}

/// Open MPI makes a folder that is missing, but nothing in one like TMPDIR=/proc.
void require_base(const std::filesystem::path& base) {
  std::error_code ignored;
  if (!std::filesystem::exists(base, ignored)) return;
  auto name = (base / "flotilla-XXXXXX").string();
  const bool made = ::mkdtemp(name.data()) != nullptr;
  FLOTILLA_REQUIRE(made, ErrorKind::unavailable, base.string(), ": no folder can be made there: ", std::strerror(errno),
                   "; set TMPDIR to a folder of your own");
  ::rmdir(name.c_str());
}

}  // namespace

std::filesystem::path usual_session_folder(const Environment& environment) {
  return base_folder(environment) / text("ompi.", short_host_name(), ".", ::geteuid());
}

std::string why_no_session_folder(const std::filesystem::path& folder) {
  struct stat facts {};
  if (::lstat(folder.c_str(), &facts) != 0) return {};
  if (!S_ISDIR(facts.st_mode)) return "is no folder";
  if (facts.st_uid != ::geteuid()) return text("belongs to user ", facts.st_uid);
  return ::access(folder.c_str(), R_OK | W_OK | X_OK) == 0 ? std::string{} : "cannot be written";
}

SessionFolder::SessionFolder() {
  const Environment environment = [](const char* name) -> const char* { return std::getenv(name); };
  if (environment("OMPI_COMM_WORLD_SIZE") != nullptr) return;  // mpirun has made it
  const auto usual = usual_session_folder(environment);
  const auto why = why_no_session_folder(usual);
  if (why.empty()) {
    if (launched_processes(environment) == 1) require_base(usual.parent_path());  // others may have been told of another folder
    return;
  }
  FLOTILLA_REQUIRE(launched_processes(environment) == 1, ErrorKind::unavailable, usual.string(), ": Open MPI's folder on this node ", why,
                   "; set TMPDIR to a folder of your own");
  auto name = (usual.parent_path() / "flotilla-XXXXXX").string();
  FLOTILLA_REQUIRE(::mkdtemp(name.data()) != nullptr, ErrorKind::unavailable, name, ": cannot be made: ", std::strerror(errno),
                   "; set TMPDIR to a folder of your own");
  own_ = name;
  ::setenv(base_variable, name.c_str(), 1);
  log::warning(usual.string(), ": Open MPI's folder on this node ", why, "; using ", name);
}

SessionFolder::~SessionFolder() {
  if (own_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(own_, ignored);
}

}  // namespace flotilla::mpi
