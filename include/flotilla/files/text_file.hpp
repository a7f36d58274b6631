#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "flotilla/base/patience.hpp"
#include "flotilla/base/units.hpp"

/// The one place that opens text files for reading and for writing.
namespace flotilla::files {

/// Largest text file read at once.
inline constexpr Bytes text_limit{64 << 20};

/// The whole of a regular file. Throws Error{bad_input} when it is none or larger than `limit`; Error{no_input} when there is nothing of
/// that name or it may not be read, and Error{temporary}, once `patience` is over.
std::string read_text(const std::filesystem::path&, Bytes limit = text_limit, const Patience& patience = {});

/// The same; nothing where there is no such file.
std::optional<std::string> read_text_if_there(const std::filesystem::path&, Bytes limit = text_limit);

/// Whether a write is on the disk when it returns, or may be lost with the machine.
enum class Flush { no, yes };

/// Writes all or nothing: a temporary file in the same folder, then renamed over `path`; both are flushed to the disk. The new file has the
/// mode of the one it replaces, else 0664 less the umask.
/// Only a regular file is ever replaced. A device, a pipe, a socket that somebody listens on and this process's own descriptors
/// (/dev/stdout, /dev/fd/3) are written through; a folder and a symbolic link to a file are refused.
/// Throws Error{unavailable or temporary} and leaves an older file as it was.
void write_text(const std::filesystem::path& path, std::string_view text, Flush = Flush::yes);

/// Throws where the file that was opened must not be copied: its owner's number, and where it lies once links are followed.
using MayCopy = std::function<void(std::uint32_t owner, const std::filesystem::path& real)>;

/// Writes `to` as write_text() does, with what `from` holds and no more mode bits than it has. The same open file is asked about and read.
void copy_text(const std::filesystem::path& from, const std::filesystem::path& to, const MayCopy& = {});

/// Makes a folder and those on the way to it with mode 0775 less the umask. Throws Error{bad_input} where one of
/// them is no folder, else Error{unavailable or temporary}.
void make_folders(const std::filesystem::path&);

/// make_folders(), and nobody else can have chosen what lies there, or can put another in its place: the last name is no link, belongs to
/// this user and is not writable by everybody (a group that may write is the owner's decision); a folder on the way into which everybody
/// may write is root's, or the user's own with the sticky bit. Every folder that is filled, or emptied, is asked for by this. Throws
/// Error{bad_input} where it is another's.
void make_own_folder(const std::filesystem::path&);

/// The whole of a regular file of this user's or root's that nobody else may write, which is removed: what is asked in it is done. It is
/// renamed first, so that what is looked at, read and removed is one file; links are not followed. Throws as read_text(); it is gone then,
/// too.
std::string take_own_text(const std::filesystem::path&, Bytes limit = text_limit);

/// 16 hexadecimal digits from the kernel's random numbers: a name that nobody else can have made beforehand.
std::string unguessable();

/// The name of a file that was still being written, without its endings ".<16 hexadecimal digits>.tmp" or ".own"; empty when it has none.
std::string_view stem_of_unfinished(std::string_view name);

}  // namespace flotilla::files
