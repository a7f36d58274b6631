#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/plan/shard_layout.hpp"

/// HDF5 files: tensors in their global shape, written by all ranks at once and readable by h5dump and h5py. HDF5 is not thread-safe: all
/// calls come from one thread of the process. Every failure is an Error of one line with file, dataset and HDF5's innermost message:
/// bad_input when reading, temporary when writing: what is below HDF5 failed.
namespace flotilla::store {

/// "HDF5 1.10.8", as linked.
std::string library_version();

/// True once a write has failed: from then on HDF5 may hang or crash when it touches what could not be written, so nothing enters it
/// again in this process. Open files stay open, their destructors do nothing, every other call throws Error{temporary}: a new process may
/// go on. Neither exit() nor MPI_Finalize() enters HDF5 either.
bool poisoned() noexcept;
/// For ranks that learn from others that a collective write failed.
void poison() noexcept;

enum class Element { fp32, uint32 };

/// A dataset of an open file, which it keeps open. Contiguous, little-endian.
class Dataset {
 public:
  struct Native;
  explicit Dataset(std::shared_ptr<const Native> native) : native_{std::move(native)} {}

  const std::string& name() const noexcept;
  const std::vector<std::int64_t>& shape() const noexcept;
  std::int64_t elements() const noexcept;
  Element element() const noexcept;
  /// Where its first byte is in the file.
  Bytes file_offset() const;

  /// Moves the box between the whole (in the file) and `local`. Independent of other ranks. Box offsets must lie inside both.
  void write(std::span<const float> local, const plan::Box&) const;
  void read(std::span<float> local, const plan::Box&) const;
  /// Consecutive elements of a file that was opened for reading, past HDF5: a disk that is full or away is waited for and told from damage.
  /// Throws Error{temporary, unavailable}.
  void read_run(std::span<float> values, std::int64_t first) const;
  /// The whole of a one-dimensional uint32 dataset.
  void write_all(std::span<const std::uint32_t>) const;
  std::vector<std::uint32_t> read_all() const;

 private:
  std::shared_ptr<const Native> native_;
};

class File {
 public:
  struct Native;

  /// An empty HDF5 file that already holds `size` bytes of disk, so that no later write can find the disk full; replaces what is there.
  /// Open it for writing next; closing then cuts off what was not used. Local.
  static void create_reserved(const std::filesystem::path&, Bytes size);

  /// Any number of processes, each for itself; needs no MPI. What is not HDF5 or is cut short is refused here.
  static File open_for_reading(const std::filesystem::path&);
  /// One process: the only mode in which groups, datasets and attributes may be created.
  static File open_for_writing(const std::filesystem::path&);
  /// Collective: every rank of the communicator opens the file and writes into datasets that exist. Opening a dataset is collective too:
  /// all ranks open the same ones in the same order; writing is not. Only call when all ranks are known to be alive, since HDF5 has no
  /// deadlines.
  static File open_for_writing(const std::filesystem::path&, const mpi::Communicator&);

  std::filesystem::path path() const;

  /// `name` may name groups on the way ("parameters/head.norm.bias"); they are made. The space is allocated at once and not filled.
  Dataset create_dataset(const std::string& name, const std::vector<std::int64_t>& shape, Element) const;
  /// Refuses what is not a plain dataset of this file: links to elsewhere, external storage, filters, other element types.
  Dataset dataset(const std::string& name) const;
  bool contains(const std::string& name) const;
  /// Names in a group, in the order of their names.
  std::vector<std::string> names(const std::string& group) const;

  /// Attributes of the root group.
  void write_attribute(const std::string& name, const std::string& value) const;
  void write_attribute(const std::string& name, std::int64_t value) const;
  std::string read_text(const std::string& name) const;
  std::int64_t read_integer(const std::string& name) const;

  /// Flushes and closes; collective where opening was. No Dataset of the file may be alive. A parallel file that is destroyed without
  /// close() is left open and poisons the process, because closing alone would hang.
  void close();

 private:
  explicit File(std::shared_ptr<Native> native) : native_{std::move(native)} {}
  std::shared_ptr<Native> native_;
};

}  // namespace flotilla::store
