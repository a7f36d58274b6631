#include <functional>
#include <numeric>

#include "flotilla/store/file.hpp"
#include "native.hpp"

namespace flotilla::store {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

hsize_t size(std::int64_t value) { return static_cast<hsize_t>(value); }

}  // namespace

const std::string& Dataset::name() const noexcept { return native_->name; }
const std::vector<std::int64_t>& Dataset::shape() const noexcept { return native_->shape; }
std::int64_t Dataset::elements() const noexcept { return product(native_->shape); }
Datatype Dataset::element() const noexcept { return native_->element; }

Bytes Dataset::file_offset() const {
  enter();
  const haddr_t offset = H5Dget_offset(native_->id.get());
  if (offset == HADDR_UNDEF) fail(native_->file->doing, native_->place(), "has no place in the file");
  return {static_cast<std::int64_t>(offset)};
}

void Dataset::write_all(std::span<const std::uint32_t> values) const {
  enter();
  FLOTILLA_ASSERT(element() == Datatype::uint32 && elements() == static_cast<std::int64_t>(values.size()), native_->place());
  checked(H5Dwrite(native_->id.get(), H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), Doing::writing, native_->place(),
          "write failed");
}

std::vector<std::uint32_t> Dataset::read_all() const {
  enter();
  FLOTILLA_REQUIRE(element() == Datatype::uint32, ErrorKind::bad_input, native_->place(), ": expected elements of type uint32");
  std::vector<std::uint32_t> values(static_cast<std::size_t>(elements()));
  checked(H5Dread(native_->id.get(), H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), Doing::reading, native_->place(),
          "read failed");
  return values;
}

namespace {

std::vector<std::int64_t> read_shape(hid_t dataset, const std::string& place) {
  const SpaceId space{checked(H5Dget_space(dataset), Doing::reading, place, "no dataspace")};
  const int rank = checked(H5Sget_simple_extent_ndims(space.get()), Doing::reading, place, "no simple dataspace");
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  checked(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), Doing::reading, place, "no extents");
  return {extents.begin(), extents.end()};
}

Datatype read_element(hid_t dataset, const std::string& place) {
  const TypeId type{checked(H5Dget_type(dataset), Doing::reading, place, "no type")};
  for (auto element : {Datatype::fp32, Datatype::uint32})
    if (H5Tequal(type.get(), file_type(element)) > 0) return element;
  throw Error{ErrorKind::bad_input, text(place, ": expected elements of type 32-bit little-endian IEEE float or unsigned integer")};
}

void require_plain(hid_t dataset, const std::string& place) {
  const PropertiesId properties{checked(H5Dget_create_plist(dataset), Doing::reading, place, "no properties")};
  FLOTILLA_REQUIRE(H5Pget_layout(properties.get()) == H5D_CONTIGUOUS && H5Pget_external_count(properties.get()) == 0 &&
                       H5Dget_offset(dataset) != HADDR_UNDEF,
                   ErrorKind::bad_input, place, ": expected contiguous storage in this file");
}

/// Extents as a file may claim them: none is zero, and together they are what the file stores.
void require_sound(hid_t dataset, const std::vector<std::int64_t>& shape, const std::string& place) {
  std::int64_t bytes = 4;
  bool sound = !shape.empty();
  for (auto extent : shape) sound = sound && extent > 0 && !__builtin_mul_overflow(bytes, extent, &bytes);
  FLOTILLA_REQUIRE(sound && H5Dget_storage_size(dataset) == size(bytes), ErrorKind::bad_input, place,
                   ": expected extents that agree with the bytes stored");
}

}  // namespace

Dataset checked_dataset(std::shared_ptr<const File::Native> file, const std::string& name, DatasetId id) {
  const auto place = file->path + ": " + name;
  require_plain(id.get(), place);
  auto native = std::make_shared<Dataset::Native>();
  native->shape = read_shape(id.get(), place);
  native->element = read_element(id.get(), place);
  require_sound(id.get(), native->shape, place);
  native->file = std::move(file);
  native->name = name;
  native->id = std::move(id);
  return Dataset{std::move(native)};
}

}  // namespace flotilla::store
