#include "flotilla/checkpoint/manifest.hpp"

#include <charconv>

#include "flotilla/base/hash.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::checkpoint {
namespace {

using files::Json;
using files::JsonLine;

constexpr std::string_view format = "flotilla-checkpoint";
constexpr std::int64_t version = 1;

std::string provenance_object(const Manifest& manifest) {
  JsonLine object;
  for (const auto& [key, value] : manifest.provenance) object.add(key, value);
  return object.text();
}

std::string file_array(const Manifest& manifest) {
  std::string array = "[";
  for (const auto& file : manifest.files) {
    JsonLine object;
    object.add("name", file.name).add("size_bytes", file.size.count).add("checksums_crc32c", hex(file.checksum).substr(8));
    array += (array.size() > 1 ? "," : "") + object.text();
  }
  return array + "]";
}

template <class Number>
Number parse_number(const Json& place, int base, std::string_view expected) {
  const auto digits = place.as_string();
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty()) place.refuse(expected);
  return value;
}

StateFile file_of(const Json& object) {
  object.expect_keys({"name", "size_bytes", "checksums_crc32c"});
  StateFile file;
  file.name = object.get_string("name");
  file.size = {object.get_int64("size_bytes", 0)};
  file.checksum = parse_number<std::uint32_t>(object.at("checksums_crc32c"), 16, "expected 8 hexadecimal digits");
  return file;
}

/// JSON inside the manifest as the text of a file of its own, or empty.
std::string document_of(const Json& value) { return value.is_null() ? std::string{} : value.pretty(); }

}  // namespace

std::string manifest_to_json(const Manifest& manifest) {
  JsonLine object;
  object.add("format", format).add("version", version).add("step", manifest.step).add("optimizer_steps", manifest.optimizer_steps);
  // A string: seeds have 64 bits, and many readers of JSON keep 53.
  object.add("sequences", manifest.sequences).add("seed", std::to_string(manifest.seed));
  object.add("data_fingerprint", manifest.data_fingerprint).add("training", manifest.training).add("tensors", manifest.tensors);
  object.add_json("files", file_array(manifest)).add_json("provenance", provenance_object(manifest));
  object.add_json("plan", manifest.plan.empty() ? "null" : manifest.plan);
  object.add_json("profile", manifest.profile.empty() ? "null" : manifest.profile);
  return Json::parse(object.text(), "manifest.json").pretty();
}

Manifest manifest_from_json(std::string_view text, std::string_view source) {
  const Json document = Json::parse(text, source);
  files::require_format(document, format, version);
  document.expect_keys({"format", "version", "step", "optimizer_steps", "sequences", "seed", "data_fingerprint", "training", "tensors",
                        "files", "provenance", "plan", "profile"});
  Manifest manifest;
  manifest.step = document.get_int64("step", 0);
  manifest.optimizer_steps = document.get_int64("optimizer_steps", 0);
  manifest.sequences = document.get_int64("sequences", 0);
  manifest.seed = parse_number<std::uint64_t>(document.at("seed"), 10, "expected a string of decimal digits below 2^64");
  manifest.data_fingerprint = document.get_string("data_fingerprint");
  manifest.training = document.get_string("training");
  manifest.tensors = document.get_string("tensors");
  for (const auto& file : document.at("files").items()) manifest.files.push_back(file_of(file));
  const Json provenance = document.at("provenance");
  for (const auto& key : provenance.keys()) manifest.provenance.emplace_back(key, provenance.get_string(key));
  manifest.plan = document_of(document.at("plan"));
  manifest.profile = document_of(document.at("profile"));
  return manifest;
}

}  // namespace flotilla::checkpoint
