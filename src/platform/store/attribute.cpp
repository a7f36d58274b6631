#include "flotilla/store/file.hpp"
#include "native.hpp"

namespace flotilla::store {
namespace {

/// Longest text that is read; ours are a few words.
constexpr std::size_t text_limit = 4096;

TypeId text_type(std::size_t length, Doing doing, const std::string& place) {
  TypeId type{checked(H5Tcopy(H5T_C_S1), doing, place, "no text type")};
  checked(H5Tset_size(type.get(), length), doing, place, "no text length");
  checked(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), doing, place, "no text padding");
  checked(H5Tset_cset(type.get(), H5T_CSET_UTF8), doing, place, "no text encoding");
  return type;
}

AttributeId create_attribute(const File::Native& file, const std::string& name, hid_t type) {
  const SpaceId space{checked(H5Screate(H5S_SCALAR), Doing::writing, file.path, "no dataspace")};
  return AttributeId{checked(H5Acreate2(file.id.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), Doing::writing,
                             file.path, "cannot create attribute " + name)};
}

AttributeId open(const File::Native& file, const std::string& name) {
  AttributeId id{
      checked(H5Aopen(file.id.get(), name.c_str(), H5P_DEFAULT), Doing::reading, file.path, "attribute " + name + " is missing")};
  const SpaceId space{checked(H5Aget_space(id.get()), Doing::reading, file.path, "attribute " + name + " has no dataspace")};
  FLOTILLA_REQUIRE(H5Sget_simple_extent_npoints(space.get()) == 1, ErrorKind::bad_input, file.path, ": attribute ", name,
                   ": expected one value");
  return id;
}

}  // namespace

void File::write_attribute(const std::string& name, const std::string& value) const {
  enter();
  FLOTILLA_ASSERT(!value.empty() && value.size() <= text_limit, name);
  const auto type = text_type(value.size(), Doing::writing, native_->path);
  const auto id = create_attribute(*native_, name, type.get());
  checked(H5Awrite(id.get(), type.get(), value.data()), Doing::writing, native_->path, "cannot write attribute " + name);
}

void File::write_attribute(const std::string& name, std::int64_t value) const {
  enter();
  const auto id = create_attribute(*native_, name, H5T_STD_I64LE);
  checked(H5Awrite(id.get(), H5T_NATIVE_INT64, &value), Doing::writing, native_->path, "cannot write attribute " + name);
}

std::string File::read_text(const std::string& name) const {
  enter();
  const auto id = open(*native_, name);
  const TypeId type{checked(H5Aget_type(id.get()), Doing::reading, native_->path, "attribute without type")};
  const auto length = H5Tget_size(type.get());
  FLOTILLA_REQUIRE(H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0 && length > 0 && length <= text_limit,
                   ErrorKind::bad_input, native_->path, ": attribute ", name, ": expected a text of at most ", text_limit, " bytes");
  std::string value(length, '\0');
  checked(H5Aread(id.get(), type.get(), value.data()), Doing::reading, native_->path, "cannot read attribute " + name);
  return value.substr(0, value.find('\0'));
}

std::int64_t File::read_integer(const std::string& name) const {
  enter();
  const auto id = open(*native_, name);
  const TypeId type{checked(H5Aget_type(id.get()), Doing::reading, native_->path, "attribute without type")};
  FLOTILLA_REQUIRE(H5Tget_class(type.get()) == H5T_INTEGER, ErrorKind::bad_input, native_->path, ": attribute ", name,
                   ": expected an integer");
  std::int64_t value = 0;
  checked(H5Aread(id.get(), H5T_NATIVE_INT64, &value), Doing::reading, native_->path, "cannot read attribute " + name);
  return value;
}

}  // namespace flotilla::store
