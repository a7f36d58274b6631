#include "directory.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>

#include "flotilla/base/io_failure.hpp"
#include "flotilla/store/disk.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-", replacement = ".new", temporary = ".tmp";

/// N of "step-N", or -1.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(prefix)) return -1;
  name.remove_prefix(prefix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool spelled = error == std::errc{} && end == name.data() + name.size() && step >= 0 && std::to_string(step) == name;
  return spelled ? step : -1;
}

/// Folders in the run directory; none when there is no such directory.
std::vector<fs::path> folders(const fs::path& run) {
  std::vector<fs::path> result;
  std::error_code error;
  for (fs::directory_iterator entry{run, error}, end; !error && entry != end; entry.increment(error))
    if (entry->is_directory(error) && !error) result.push_back(entry->path());
  return result;
}

bool committed(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / manifest_name, error);
}

/// `status` of a system call, 0 when it worked.
void require_done(int status, const fs::path& path, std::string_view what) {
  FLOTILLA_REQUIRE(status == 0, io_error_kind(errno), path.string(), ": cannot ", what, ": ", std::strerror(errno));
}

fs::path temporary_manifest(const fs::path& directory) { return directory / text(manifest_name, temporary); }

void exchange(const fs::path& working, const fs::path& directory) {
  const int status = ::renameat2(AT_FDCWD, working.c_str(), AT_FDCWD, directory.c_str(), RENAME_EXCHANGE);
  const bool unsupported = status != 0 && (errno == EINVAL || errno == ENOSYS);
  FLOTILLA_REQUIRE(!unsupported, ErrorKind::unavailable, directory.string(),
                   ": is committed already, and this file system cannot replace it without a moment at which neither exists; move it away");
  require_done(status, directory, "replace it");
}

}  // namespace

fs::path step_directory(const fs::path& run, std::int64_t step) { return run / text(prefix, step); }

fs::path working_directory(const fs::path& run, std::int64_t step) {
  const auto directory = step_directory(run, step);
  return committed(directory) ? fs::path{directory.string() + std::string{replacement}} : directory;
}

std::vector<CommittedStep> list(const fs::path& run) {
  std::vector<CommittedStep> steps;
  for (const auto& folder : folders(run))
    if (const auto step = step_of(folder.filename().string()); step >= 0 && committed(folder)) steps.push_back({step, folder});
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return steps;
}

std::vector<fs::path> debris(const fs::path& run) {
  std::vector<fs::path> result;
  for (const auto& folder : folders(run)) {
    const auto name = folder.filename().string();
    const bool unfinished = step_of(name) >= 0 && !committed(folder);
    const bool replacing = name.ends_with(replacement) && step_of(std::string_view{name}.substr(0, name.size() - replacement.size())) >= 0;
    if (unfinished || replacing) result.push_back(folder);
  }
  return result;
}

void make_directory(const fs::path& directory) {
  require_done(::mkdir(directory.c_str(), 0777), directory, "make the folder");
  store::flush(directory.parent_path());
}

void prepare_manifest(const fs::path& working, std::string_view content) {
  const auto path = temporary_manifest(working);
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  FLOTILLA_REQUIRE(out, io_error_kind(errno), path.string(), ": cannot write ", content.size(), " bytes: ", std::strerror(errno));
  store::flush(path);
}

void commit(const fs::path& working, const fs::path& run, std::int64_t step) {
  const auto directory = step_directory(run, step);
  store::flush(working);
  require_done(::rename(temporary_manifest(working).c_str(), (working / manifest_name).c_str()), working, "commit");
  store::flush(working);
  if (working != directory) exchange(working, directory);
  store::flush(run);
}

void remove_step(const fs::path& directory) {
  if (committed(directory)) {
    require_done(::unlink((directory / manifest_name).c_str()), directory, "remove it");
    store::flush(directory);
  }
  std::error_code error;
  fs::remove_all(directory, error);
  FLOTILLA_REQUIRE(!error, io_error_kind(error.value()), directory.string(), ": cannot remove it: ", error.message());
}

std::vector<fs::path> beyond_keep(const fs::path& run, std::int64_t step, int keep) {
  auto steps = list(run);
  std::erase_if(steps, [&](const auto& found) { return found.step > step; });
  std::vector<fs::path> result;
  if (keep <= 0) return result;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i) result.push_back(steps[i].directory);
  return result;
}

}  // namespace flotilla::checkpoint
