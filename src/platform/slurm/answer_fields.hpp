#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/base/units.hpp"

/// How Slurm's commands write things down.
namespace flotilla::slurm {

/// Pieces between separators, empty ones too.
std::vector<std::string> split(std::string_view text, char separator);
/// Lines without their ends; the last may lack one. Empty lines are left out.
std::vector<std::string_view> lines_of(std::string_view text);
std::string upper(std::string_view);
std::string lower(std::string_view);

/// "Key=Value Key=Value ...", as scontrol --oneliner writes. Values may hold blanks (Reason, OS, JobName); where a key occurs twice the
/// first counts, so that what people wrote behind it cannot take its place.
std::map<std::string, std::string> record_of(std::string_view line);
/// "" where it is not there, and for Slurm's ways to say nothing: "(null)", "N/A".
std::string field(const std::map<std::string, std::string>& record, const std::string& key);

/// A number of at most 1e9; -1 where the text is none.
int number_of(std::string_view digits);
/// "4", "2K", "1.50K", "18446744073709551615": a count with its unit of 1024s (K, M, G, T, P), at most 2^63 - 1; -1 where the text is none.
std::int64_t count_of(std::string_view);
/// "3000", "3000M", "240G", "1.5T": Slurm's memory, in MiB without a unit. Throws Error{bad_input}.
Bytes memory_of(const std::string&);

/// GPUs that shards or MPS of jobs are on: "gpu:a:0(IDX:N/A),shard:a:40(8/8,0/8)" is one, "mps:a:50(50/100,0/100)" one.
int gpus_in_shares(const std::string& gres_used);

/// Prefixes what went wrong with where it stood.
template <class Read>
auto read_at(const std::string& place, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error{ErrorKind::bad_input, text(place, ": ", error.what())};
  }
}

}  // namespace flotilla::slurm
