#include "directory.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <string>

#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/unique_handle.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/store/disk.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;
using files::FileType;

constexpr std::string_view prefix = "step-", replacement = ".new", temporary = ".tmp", mark_format = "flotilla-step";
constexpr Bytes largest_mark{4096};

struct FolderTraits {
  using Raw = int;
  static Raw null() noexcept { return -1; }
  static void destroy(Raw folder) noexcept { ::close(folder); }
};

/// N of "step-N", or -1.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(prefix)) return -1;
  name.remove_prefix(prefix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool spelled = error == std::errc{} && end == name.data() + name.size() && step >= 0 && std::to_string(step) == name;
  return spelled ? step : -1;
}

/// N of "step-N.new", or -1.
std::int64_t replaced_step_of(std::string_view name) {
  return name.ends_with(replacement) ? step_of(name.substr(0, name.size() - replacement.size())) : -1;
}

std::vector<std::string> names_in_run(const fs::path& run) { return files::names_in(run).value_or(std::vector<std::string>{}); }

/// Whoever linked the folder or the manifest here: what is found is a checkpoint to load.
bool committed(const fs::path& directory) {
  const auto facts = files::facts_of(directory / manifest_name);
  return facts && (facts->type == FileType::regular || facts->type == FileType::link);
}

bool is_folder(const fs::path& path) {
  const auto facts = files::facts_of(path);
  return facts && facts->type == FileType::folder;
}

/// Repeats a call that returns 0 or -1 with errno while the disk is full or away. Throws Error.
void require_done(const fs::path& path, std::string_view what, const std::function<int()>& call) {
  const int error = patiently(path.native(), [&] { return call() == 0 ? 0 : errno; });
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), path.string(), ": cannot ", what, ": ", std::strerror(error));
}

fs::path temporary_manifest(const fs::path& directory) { return directory / text(manifest_name, temporary); }

/// The inode tells the folder that we made from a copy of it.
std::string mark_of(std::uint64_t inode) {
  files::JsonLine line;
  line.add("format", mark_format).add("version", 1).add("inode", std::to_string(inode));
  return line.text() + "\n";
}

bool is_marked(const fs::path& directory) {
  const auto folder = files::facts_of(directory), mark = files::facts_of(directory / mark_name);
  if (!folder || folder->type != FileType::folder || !mark || mark->type != FileType::regular) return false;
  try {
    return files::read_text_if_there(directory / mark_name, largest_mark) == mark_of(folder->inode);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return false;
  }
}

/// A folder that was being made: nobody else has named it so, and it holds nothing but, at most, a mark that was being written.
bool is_unmarked_yet(const fs::path& directory) {
  const auto name = directory.filename().string();
  if (files::stem_of_unfinished(name).empty() || !is_folder(directory)) return false;
  const auto names = files::names_in(directory);
  return names && std::ranges::all_of(*names, [](const auto& file) { return files::stem_of_unfinished(file) == mark_name; });
}

/// A folder of this user's, not a link to one, with our mark or with a sound manifest of its own step that is a file of its own.
bool is_ours(const fs::path& directory) {
  if (const auto folder = files::facts_of(directory); !folder || !folder->mine) return false;
  if (is_marked(directory) || is_unmarked_yet(directory)) return true;
  const auto manifest = files::facts_of(directory / manifest_name);
  if (!is_folder(directory) || !manifest || manifest->type != FileType::regular) return false;
  try {
    read_manifest(directory);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return false;
  }
}

/// A foreign folder or file of this name is not ours to remove.
void set_aside(const fs::path& path) {
  const auto aside = path.string() + ".aside-" + files::unguessable();
  require_done(path, "move it aside", [&] { return ::rename(path.c_str(), aside.c_str()); });
  log::warning(path.string(), ": is in the way of a checkpoint and cannot be proven to be of this run; renamed to ", aside);
}

void exchange(const fs::path& working, const fs::path& directory) {
  if (!is_ours(directory)) {
    set_aside(directory);
    return require_done(directory, "put the new one in its place", [&] { return ::rename(working.c_str(), directory.c_str()); });
  }
  const auto inode = files::facts_of(working).value_or(files::FileFacts{}).inode;
  int error = 0;
  require_done(directory, "replace it", [&] {
    const int status = ::renameat2(AT_FDCWD, working.c_str(), AT_FDCWD, directory.c_str(), RENAME_EXCHANGE);
    error = status == 0 ? 0 : errno;
    // The answer may be lost after the folders were exchanged.
    if (status != 0 && files::facts_of(directory).value_or(files::FileFacts{}).inode == inode) return 0;
    errno = error;
    return error == EINVAL || error == ENOSYS ? 0 : status;
  });
  FLOTILLA_REQUIRE(error != EINVAL && error != ENOSYS, ErrorKind::unavailable, directory.string(),
                   ": is committed already, and this file system cannot replace it without a moment at which neither exists; move it away");
}

/// Names of the files that a checkpoint has but for the mark, the manifest first.
std::vector<std::string> removable(const fs::path& directory) {
  std::vector<std::string> names{std::string{manifest_name}};
  const auto is_part = [](const std::string& name) {
    return name == state_name || name == text(manifest_name, temporary) || files::stem_of_unfinished(name) == mark_name;
  };
  for (const auto& name : files::names_in(directory).value_or(std::vector<std::string>{}))
    if (is_part(name)) names.push_back(name);
  return names;
}

/// Without its mark a folder is nobody's for all we know. So one that holds nothing else loses it under a name that only a folder in the
/// making has: whoever is killed between that and the end leaves what the next save removes. Returns where the folder is then.
fs::path before_the_mark_goes(const fs::path& directory) {
  const auto names = files::names_in(directory);
  const bool only_the_mark = names && *names == std::vector<std::string>{std::string{mark_name}};
  if (!only_the_mark || !files::stem_of_unfinished(directory.filename().string()).empty()) return directory;
  const fs::path unfinished = directory.string() + "." + files::unguessable() + std::string{temporary};
  require_done(directory, "rename it", [&] { return ::rename(directory.c_str(), unfinished.c_str()) == 0 || errno == ENOENT ? 0 : -1; });
  return unfinished;
}

void unlink_in(int folder, const fs::path& directory, const std::string& name) {
  require_done(directory / name, "remove it", [&] {
    struct stat facts {};
    if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : -1;
    if (!S_ISREG(facts.st_mode)) return 0;
    return ::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT ? 0 : -1;
  });
}

}  // namespace

fs::path step_directory(const fs::path& run, std::int64_t step) { return run / text(prefix, step); }

fs::path working_directory(const fs::path& run, std::int64_t step) {
  const auto directory = step_directory(run, step);
  return committed(directory) ? fs::path{directory.string() + std::string{replacement}} : directory;
}

std::vector<CommittedStep> list(const fs::path& run) {
  std::vector<CommittedStep> steps;
  for (const auto& name : names_in_run(run))
    if (const auto step = step_of(name); step >= 0 && committed(run / name)) steps.push_back({step, run / name});
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return steps;
}

std::vector<fs::path> uncommitted(const fs::path& run) {
  std::vector<fs::path> result;
  for (const auto& name : names_in_run(run))
    if (step_of(name) >= 0 && !committed(run / name) && !is_marked(run / name)) result.push_back(run / name);
  return result;
}

std::vector<fs::path> debris(const fs::path& run) {
  std::vector<fs::path> result;
  for (const auto& name : names_in_run(run)) {
    const bool unfinished = step_of(name) >= 0 && !committed(run / name);
    const auto stem = files::stem_of_unfinished(name);
    const bool beside = replaced_step_of(name) >= 0 || step_of(stem) >= 0 || replaced_step_of(stem) >= 0;
    if ((unfinished || beside) && (is_marked(run / name) || is_unmarked_yet(run / name))) result.push_back(run / name);
  }
  return result;
}

void make_directory(const fs::path& directory) {
  const fs::path fresh = directory.string() + "." + files::unguessable() + ".tmp";
  require_done(directory, "make the folder", [&] { return ::mkdir(fresh.c_str(), 0775); });
  try {
    const auto facts = files::facts_of(fresh);
    FLOTILLA_REQUIRE(facts, ErrorKind::temporary, fresh.string(), ": was made and is not there");
    files::write_text(fresh / mark_name, mark_of(facts->inode));
    if (files::facts_of(directory)) is_marked(directory) ? remove_step(directory) : set_aside(directory);
    require_done(directory, "make the folder", [&] {
      if (::rename(fresh.c_str(), directory.c_str()) == 0) return 0;
      const int error = errno;
      const bool done = files::facts_of(directory).value_or(files::FileFacts{}).inode == facts->inode;  // the answer was lost
      errno = error;
      return done ? 0 : -1;
    });
  } catch (...) {
    ::unlink((fresh / mark_name).c_str());
    ::rmdir(fresh.c_str());
    throw;
  }
  store::flush(directory.parent_path());
}

void prepare_manifest(const fs::path& working, std::string_view content) {
  const auto path = temporary_manifest(working);
  int file = -1;
  require_done(path, "open it", [&] {
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0664);
    return file >= 0 ? 0 : -1;
  });
  int error = 0;
  for (std::size_t done = 0; done < content.size() && error == 0;) {
    const auto written = ::pwrite(file, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) error = errno;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  if (error == 0 && ::fsync(file) != 0) error = errno;
  ::close(file);
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), path.string(), ": cannot write ", content.size(), " bytes: ", std::strerror(error));
}

void commit(const fs::path& working, const fs::path& run, std::int64_t step, bool& exists) {
  const auto directory = step_directory(run, step);
  const auto from = temporary_manifest(working), to = working / manifest_name;
  store::flush(working);
  require_done(working, "commit", [&] {
    if (::rename(from.c_str(), to.c_str()) == 0) return 0;
    const int error = errno;
    const bool done = !files::facts_of(from) && files::facts_of(to);  // the answer was lost
    errno = error;
    return done ? 0 : -1;
  });
  exists = working == directory;
  store::flush(working);
  if (!exists) exchange(working, directory);
  exists = true;
  store::flush(run);
}

void remove_step(const fs::path& directory) {
  FLOTILLA_REQUIRE(is_ours(directory), ErrorKind::unavailable, directory.string(),
                   ": is not removed: it cannot be proven to be a checkpoint that this run made");
  int folder = -1;
  require_done(directory, "open it", [&] {
    folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return folder >= 0 ? 0 : -1;
  });
  const UniqueHandle<FolderTraits> held{folder};
  for (const auto& name : removable(directory)) {
    unlink_in(folder, directory, name);
    if (name == manifest_name) ::fsync(folder);
  }
  const fs::path last = before_the_mark_goes(directory);
  unlink_in(folder, directory, std::string{mark_name});
  const int error = patiently(directory.native(), [&] { return ::rmdir(last.c_str()) == 0 || errno == ENOENT ? 0 : errno; });
  if (error == ENOTEMPTY || error == EEXIST)
    return log::warning(directory.string(), ": stays, because it holds files that no checkpoint has");
  FLOTILLA_REQUIRE(error == 0, io_error_kind(error), directory.string(), ": cannot remove it: ", std::strerror(error));
}

std::vector<fs::path> beyond_keep(const fs::path& run, std::int64_t step, int keep) {
  std::vector<fs::path> result;
  if (keep <= 0) return result;
  auto steps = list(run);
  std::erase_if(steps, [&](const auto& found) { return found.step > step; });
  int good = 0, exploded = 0;
  for (auto found = steps.rbegin(); found != steps.rend(); ++found) {
    if (good >= keep) {
      result.push_back(found->directory);
      continue;
    }
    try {
      if (!read_manifest(found->directory).exploded)
        ++good;
      else if (++exploded > keep)
        result.push_back(found->directory);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_input) throw;
    }
  }
  std::ranges::reverse(result);
  return result;
}

}  // namespace flotilla::checkpoint
