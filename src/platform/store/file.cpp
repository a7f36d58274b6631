#include "flotilla/store/file.hpp"

#include <sys/stat.h>

#include "flotilla/base/error.hpp"
#include "native.hpp"

namespace flotilla::store {
namespace {

/// Large datasets begin on a page, so that ranks on different nodes seldom share one.
constexpr hsize_t align_from = 64 << 10, page = 4096;

/// HDF5 1.8's format: readable everywhere, and its metadata carry checksums. Locks are the run directory's business: HDF5's own fail on
/// file systems without flock(). Files in memory have names that HDF5's usual driver takes for broken links; the one for stdio opens them.
PropertiesId access_properties(const std::string& path) {
  PropertiesId properties{checked(H5Pcreate(H5P_FILE_ACCESS), Doing::reading, path, "no access properties")};
  checked(H5Pset_fapl_stdio(properties.get()), Doing::reading, path, "no driver");
  checked(H5Pset_libver_bounds(properties.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), Doing::reading, path, "no format bounds");
  checked(H5Pset_alignment(properties.get(), align_from, page), Doing::reading, path, "no alignment");
  checked(H5Pset_file_locking(properties.get(), false, true), Doing::reading, path, "no lock setting");
  return properties;
}

PropertiesId creation_properties(const std::string& place) {
  PropertiesId properties{checked(H5Pcreate(H5P_DATASET_CREATE), Doing::writing, place, "no properties")};
  checked(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), Doing::writing, place, "no allocation time");
  checked(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), Doing::writing, place, "no fill time");
  return properties;
}

PropertiesId link_properties(const std::string& place) {
  PropertiesId properties{checked(H5Pcreate(H5P_LINK_CREATE), Doing::writing, place, "no properties")};
  checked(H5Pset_create_intermediate_group(properties.get(), 1), Doing::writing, place, "no groups on the way");
  return properties;
}

/// Every link on the way to `name` exists and is a hard one. H5Lexists wants the groups before it to exist.
bool hard_link(hid_t file, const std::string& name) {
  for (std::size_t end = name.find('/');; end = name.find('/', end + 1)) {
    const auto part = name.substr(0, end);
    H5L_info_t info{};
    if (H5Lexists(file, part.c_str(), H5P_DEFAULT) <= 0 || H5Lget_info(file, part.c_str(), &info, H5P_DEFAULT) < 0) return false;
    if (info.type != H5L_TYPE_HARD) return false;
    if (end == std::string::npos) return true;
  }
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

File File::create(const std::filesystem::path& path) { return create(path, path.string()); }

File File::create(const std::filesystem::path& path, const std::string& name) {
  auto turn = std::make_unique<Turn>();
  const auto properties = access_properties(name);
  FileId id{checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, properties.get()), Doing::writing, name, "cannot create")};
  return File{std::make_shared<Native>(std::move(turn), name, std::move(id), Doing::writing)};
}

File File::open_for_reading(const std::filesystem::path& path) { return open_for_reading(path, path.string()); }

File File::open_for_reading(const std::filesystem::path& path, const std::string& name) {
  auto turn = std::make_unique<Turn>();
  const auto properties = access_properties(name);
  struct stat facts {};
  FLOTILLA_REQUIRE(::stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode), ErrorKind::bad_input, name,
                   ": is no regular file; HDF5 would wait for who writes a pipe");
  FileId id{checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, properties.get()), Doing::reading, name, "not a whole HDF5 file")};
  return File{std::make_shared<Native>(std::move(turn), name, std::move(id), Doing::reading)};
}

const std::string& File::name() const { return native_->path; }

Dataset File::create_dataset(const std::string& name, const std::vector<std::int64_t>& shape, Datatype element) const {
  enter();
  const auto place = native_->path + ": " + name;
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const SpaceId space{
      checked(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), Doing::writing, place, "no dataspace")};
  const auto links = link_properties(place), creation = creation_properties(place);
  DatasetId id{
      checked(H5Dcreate2(native_->id.get(), name.c_str(), file_type(element), space.get(), links.get(), creation.get(), H5P_DEFAULT),
              Doing::writing, place, "cannot create")};
  return checked_dataset(native_, name, std::move(id));
}

Dataset File::dataset(const std::string& name) const {
  enter();
  const auto place = native_->path + ": " + name;
  FLOTILLA_REQUIRE(hard_link(native_->id.get(), name), ErrorKind::bad_input, place, ": the dataset is missing");
  DatasetId id{checked(H5Dopen2(native_->id.get(), name.c_str(), H5P_DEFAULT), Doing::reading, place, "not a dataset")};
  return checked_dataset(native_, name, std::move(id));
}

bool File::contains(const std::string& name) const {
  enter();
  return hard_link(native_->id.get(), name);
}

std::vector<std::string> File::names(const std::string& group) const {
  enter();
  const auto place = native_->path + ": " + group;
  FLOTILLA_REQUIRE(hard_link(native_->id.get(), group), ErrorKind::bad_input, place, ": the group is missing");
  const GroupId id{checked(H5Gopen2(native_->id.get(), group.c_str(), H5P_DEFAULT), Doing::reading, place, "not a group")};
  std::vector<std::string> names;
  checked(H5Literate(id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names), Doing::reading, place, "cannot list");
  return names;
}

void File::close() {
  enter();
  FLOTILLA_ASSERT(native_ && native_.use_count() == 1, "a dataset of ", native_ ? native_->path : "a closed file", " is still in use");
  checked(H5Fclose(native_->id.release()), native_->doing, native_->path, "cannot close");
  native_.reset();
}

}  // namespace flotilla::store
