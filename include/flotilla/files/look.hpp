#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/patience.hpp"
#include "flotilla/base/units.hpp"

/// Looks at the disk for which only ENOENT and ENOTDIR mean absent. Any other failure is waited for, then an Error{temporary, unavailable}:
/// nobody may take what could not be seen for what is not there.
namespace flotilla::files {

enum class FileType { regular, folder, link, other };

struct FileFacts {
  FileType type = FileType::other;
  Bytes size;
  double modified = 0;      ///< seconds since 1970
  std::uint64_t inode = 0;  ///< tells the folder itself from a copy of it
  std::uint32_t owner = 0;  ///< the user's number
  bool mine = false;        ///< owned by the user of this process
};

/// Of the name itself: a symbolic link is a link, wherever it leads. Nothing when there is no such name.
std::optional<FileFacts> facts_of(const std::filesystem::path&, const Patience& = {});

/// Throws Error{no_input} where there is no file or folder of that name, with what was expected there.
void require_there(const std::filesystem::path&, std::string_view expected);

/// Names in a folder, sorted, without "." and ".."; nothing when there is no such folder.
std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder, const Patience& = {});

}  // namespace flotilla::files
