#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::slurm {

/// The names in a list as Slurm writes it, in its order: "n[1-3,07-09],m[1-2]x[3-4]-ib0,login". Ranges keep leading zeros; a name may have
/// several brackets, of which the last runs fastest, and text after them. Throws Error{bad_input} of one line, naming `source`, for
/// anything else: an empty name, a bracket without its other half, a range that runs backwards, characters that no host name has, or more
/// than a million names.
std::vector<std::string> expand_host_list(std::string_view list, const std::string& source);

/// Names as Slurm would list them, in their order: "n[1-3],login". expand_host_list() gives them back.
std::string host_list_of(const std::vector<std::string>& names);

}  // namespace flotilla::slurm
