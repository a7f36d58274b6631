#pragma once
#include <memory>
#include <string>
#include <vector>

#include "flotilla/store/file.hpp"
#include "hdf5.hpp"

namespace flotilla::store {

struct File::Native {
  std::unique_ptr<Turn> turn;  ///< ends after the file is closed
  std::string path;
  FileId id;
  Doing doing = Doing::reading;

  Native(std::unique_ptr<Turn> mine, std::string p, FileId file, Doing d)
      : turn{std::move(mine)}, path{std::move(p)}, id{std::move(file)}, doing{d} {}
};

struct Dataset::Native {
  std::shared_ptr<const File::Native> file;
  std::string name;
  DatasetId id;
  std::vector<std::int64_t> shape;
  Datatype element = Datatype::fp32;

  std::string place() const { return file->path + ": " + name; }
};

/// Types in the file.
inline hid_t file_type(Datatype element) { return element == Datatype::fp32 ? H5T_IEEE_F32LE : H5T_STD_U32LE; }

/// Reads shape and type of an open dataset, refusing what we would not have written.
Dataset checked_dataset(std::shared_ptr<const File::Native> file, const std::string& name, DatasetId id);

}  // namespace flotilla::store
