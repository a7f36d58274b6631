#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// HDF5 files with datasets in their global shape, readable by h5dump and h5py. What a dataset holds is read and written at its place in
/// the file, past HDF5 (plain_file.hpp). HDF5 is not thread-safe: while one thread has a file open, no other thread may (asserted). Every
/// failure is an Error of one line with file, dataset and HDF5's innermost message: bad_input when reading, temporary when writing: what
/// is below HDF5 failed.
namespace flotilla::store {

/// "HDF5 1.10.8", as linked.
std::string library_version();

enum class Datatype { fp32, uint32 };

/// A dataset of an open file, which it keeps open. Contiguous, little-endian.
class Dataset {
 public:
  struct Native;
  explicit Dataset(std::shared_ptr<const Native> native) : native_{std::move(native)} {}

  const std::string& name() const noexcept;
  const std::vector<std::int64_t>& shape() const noexcept;
  std::int64_t elements() const noexcept;
  Datatype element() const noexcept;
  /// Where its first byte is in the file.
  Bytes file_offset() const;

  /// The whole of a one-dimensional uint32 dataset.
  void write_all(std::span<const std::uint32_t>) const;
  std::vector<std::uint32_t> read_all() const;

 private:
  std::shared_ptr<const Native> native_;
};

class File {
 public:
  struct Native;

  /// A new file, or one of that name made empty: the only mode in which groups, datasets and attributes may be created. Local.
  static File create(const std::filesystem::path&);
  /// The same where errors call it `name`.
  static File create(const std::filesystem::path&, const std::string& name);
  /// Any number of processes, each for itself. What is not HDF5 or is cut short is refused here; a damaged file may crash HDF5.
  static File open_for_reading(const std::filesystem::path&);
  /// The same of a copy of another file's structure, which errors call `name`.
  static File open_for_reading(const std::filesystem::path& copy, const std::string& name);

  /// What errors call it.
  const std::string& name() const;

  /// `name` may name groups on the way ("parameters/head.norm.bias"); they are made. The space is allocated at once and not filled.
  Dataset create_dataset(const std::string& name, const std::vector<std::int64_t>& shape, Datatype) const;
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

  /// Flushes and closes. No Dataset of the file may be alive.
  void close();

 private:
  explicit File(std::shared_ptr<Native> native) : native_{std::move(native)} {}
  std::shared_ptr<Native> native_;
};

}  // namespace flotilla::store
