#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/checkpoint/state.hpp"
#include "flotilla/store/plain_file.hpp"

/// What one rank owned of a state when it was saved to its node's storage: docs/formats/local-checkpoint.md. All local.
namespace flotilla::checkpoint {

/// A part's name says whose it is: "step-120.incarnation-3.part-2-of-4".
struct PartName {
  std::int64_t step = 0;
  int incarnation = 0, rank = 0, ranks = 1;
  bool operator==(const PartName&) const = default;
};
std::string to_string(const PartName&);
/// Nothing for any other name; `unfinished` for a part that was being written.
std::optional<PartName> part_name_of(std::string_view name, bool& unfinished);
std::filesystem::path unfinished_part(const std::filesystem::path& part);

/// Elements of a tensor that stand in the file one after the other, for each kind that is kept of it; at most largest_block.
struct PartBlock {
  int tensor = -1;
  plan::Box box;  ///< in memory where it was written; its local places are not in the file
};
inline constexpr std::int64_t largest_block = 1 << 18;  // elements: a reader's buffer has three times 1 MiB

struct PartHeader {
  PartName name;
  std::vector<std::string> hosts;  ///< by rank of the save
  std::string manifest;            ///< as text, in part 0 alone
  std::uint32_t remainders = 0;    ///< remainder_of_table() of what the part holds
  std::vector<PartBlock> blocks;
};

/// What the rank owns, cut into blocks.
std::vector<PartBlock> blocks_of(const LocalState&);
/// Creates the file, with room for all of it, and writes it; not flushed. Throws Error{temporary, unavailable}.
store::PlainFile write_part(const std::filesystem::path&, const PartHeader&, const LocalState&);

/// A part, open for reading.
class PartReader {
 public:
  /// Reads the header. Throws Error{bad_input} where it is damaged, not of that name, or cannot be read: another copy may do.
  PartReader(const std::filesystem::path&, const PartName&);

  const PartHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return file_.path(); }
  /// Gives the state block by block to `take`, each for the time of the call. `tensors`: the model's, trained or frozen as when they were
  /// saved. Throws Error{bad_input}.
  void visit(const std::vector<model::Tensor>& tensors, const std::function<void(const LocalState&)>& take) const;

 private:
  store::PlainFile file_;
  std::int64_t data_ = 0;  ///< where they begin; before the header, whose reading says it
  PartHeader header_;
};

}  // namespace flotilla::checkpoint
