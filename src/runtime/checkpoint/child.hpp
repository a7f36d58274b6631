#pragma once
#include <filesystem>
#include <functional>
#include <string>

namespace flotilla::checkpoint {

/// What `work` returns, from a child process: whatever kills it there (a signal, 60 s of CPU time, 120 s in all) is an Error{bad_input} of
/// one line about `file` here, and so is an exception. Its standard error is closed. For a process of one thread.
std::string in_child(const std::filesystem::path& file, const std::function<std::string()>& work);

}  // namespace flotilla::checkpoint
