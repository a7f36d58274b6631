#include "flotilla/checkpoint/manifest.hpp"

#include <bit>
#include <charconv>
#include <span>

#include "checksums.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/steps.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::checkpoint {
namespace {

using files::Json;
using files::JsonLine;

constexpr std::string_view format = "flotilla-checkpoint";
constexpr std::int64_t version = 2;
constexpr std::string_view checksum_key = "\"checksum_crc32c\": \"", no_checksum = "00000000";
constexpr std::size_t most_provenance = 64, most_files = 16;

std::string provenance_object(const Manifest& manifest) {
  JsonLine object;
  for (const auto& [key, value] : manifest.provenance) object.add(key, value);
  return object.text();
}

std::string file_array(const Manifest& manifest) {
  std::string array = "[";
  for (const auto& file : manifest.files) {
    JsonLine object;
    object.add("name", file.name).add("size_bytes", file.size.count).add("checksums_crc32c", hex8(file.checksum));
    object.add("header_crc32c", hex8(file.header_checksum)).add("structure_crc32c", hex8(file.structure_checksum));
    object.add_json("tensor_ranges", files::json_array(file.tensor_ranges));
    array += (array.size() > 1 ? "," : "") + object.text();
  }
  return array + "]";
}

constexpr std::int64_t most_loss_scale = 1 << 24;

template <class Number>
Number parse_number(const Json& place, int base, std::string_view expected) {
  const auto digits = place.as_string();
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty()) place.refuse(expected);
  return value;
}

/// Pairs of first byte and number of bytes that ascend without overlap, inside the file.
std::vector<std::int64_t> ranges_of(const Json& array, std::int64_t size) {
  std::vector<std::int64_t> numbers;
  for (const auto& number : array.items()) numbers.push_back(number.as_int64(0, size));
  std::int64_t end = 0;
  bool sound = numbers.size() % 2 == 0;
  for (std::size_t i = 0; sound && i < numbers.size(); i += 2) {
    sound = numbers[i] >= end && numbers[i + 1] <= size - numbers[i];
    end = numbers[i] + numbers[i + 1];
  }
  if (!sound) array.refuse("expected pairs of first byte and number of bytes, ascending, inside the file");
  return numbers;
}

StateFile file_of(const Json& object) {
  object.expect_keys({"name", "size_bytes", "checksums_crc32c", "header_crc32c", "structure_crc32c", "tensor_ranges"});
  StateFile file;
  file.name = object.get_string("name");
  file.size = {object.get_int64("size_bytes", 0)};
  const auto crc = [&](const char* key) { return parse_number<std::uint32_t>(object.at(key), 16, "expected 8 hexadecimal digits"); };
  file.checksum = crc("checksums_crc32c");
  file.header_checksum = crc("header_crc32c");
  file.structure_checksum = crc("structure_crc32c");
  file.tensor_ranges = ranges_of(object.at("tensor_ranges"), file.size.count);
  return file;
}

/// Where the 8 digits of the text's own checksum are; npos where there is none.
std::size_t checksum_place(std::string_view text) {
  const auto key = text.rfind(checksum_key);
  if (key == text.npos || key + checksum_key.size() + no_checksum.size() > text.size()) return text.npos;
  return key + checksum_key.size();
}

/// Of the text with zeros for the digits themselves.
std::uint32_t own_checksum(std::string text, std::size_t place) {
  text.replace(place, no_checksum.size(), no_checksum);
  return crc32c(std::as_bytes(std::span{text}));
}

/// Before the text is parsed: what has decayed says nothing about what it was. A file without checksum is of another kind or version, which
/// its head tells better.
void require_own_checksum(std::string_view text, std::string_view source) {
  const auto place = checksum_place(text);
  if (place == text.npos) return;
  const auto found = hex8(own_checksum(std::string{text}, place));
  FLOTILLA_REQUIRE(text.substr(place, no_checksum.size()) == found, ErrorKind::bad_input, source,
                   ": /checksum_crc32c: the text has checksum ", found, ", not the one that it says: it is damaged or was changed");
}

std::string to_json(const LossScale& scale) {
  JsonLine object;
  object.add("value", scale.value).add("good_steps", scale.good_steps);
  return object.text();
}

LossScale loss_scale_of(const Json& object) {
  object.expect_keys({"value", "good_steps"});
  LossScale scale;
  scale.value = object.at("value").as_int64(1, most_loss_scale);
  if (!std::has_single_bit(static_cast<std::uint64_t>(scale.value))) object.at("value").refuse("expected a power of two");
  scale.good_steps = object.at("good_steps").as_int64(0, most_run_steps);
  return scale;
}

/// JSON inside the manifest as the text of a file of its own, or empty.
std::string document_of(const Json& value) { return value.is_null() ? std::string{} : value.pretty(); }

}  // namespace

std::string manifest_to_json(const Manifest& manifest) {
  JsonLine object;
  object.add("format", format).add("version", version).add("step", manifest.step).add("optimizer_steps", manifest.optimizer_steps);
  if (manifest.loss_scale) object.add_json("loss_scale", to_json(*manifest.loss_scale));
  // A string: seeds have 64 bits, and many readers of JSON keep 53.
  object.add("sequences", manifest.sequences).add("seed", std::to_string(manifest.seed));
  object.add("data_fingerprint", manifest.data_fingerprint).add("training", manifest.training).add("tensors", manifest.tensors);
  if (!manifest.data.empty()) object.add_json("data", manifest.data);
  if (!manifest.frozen.empty()) object.add_json("frozen", files::json_array(manifest.frozen));
  object.add("exploded", manifest.exploded);
  object.add_json("files", file_array(manifest)).add_json("provenance", provenance_object(manifest));
  object.add_json("plan", manifest.plan.empty() ? "null" : manifest.plan);
  object.add_json("profile", manifest.profile.empty() ? "null" : manifest.profile);
  object.add("checksum_crc32c", no_checksum);
  auto text = Json::parse(object.text(), "manifest.json").pretty();
  const auto place = checksum_place(text);
  return text.replace(place, no_checksum.size(), hex8(own_checksum(text, place)));
}

Manifest manifest_from_json(std::string_view text, std::string_view source) {
  require_own_checksum(text, source);
  const Json document = Json::parse(text, source);
  files::require_format(document, format, version);
  document.expect_keys({"format", "version", "step", "optimizer_steps", "loss_scale", "sequences", "seed", "data_fingerprint", "data",
                        "training", "tensors", "frozen", "exploded", "files", "provenance", "plan", "profile", "checksum_crc32c"});
  document.at("checksum_crc32c");
  Manifest manifest;
  manifest.step = document.at("step").as_int64(0, most_run_steps);
  manifest.optimizer_steps = document.at("optimizer_steps").as_int64(0, most_run_steps);
  if (document.has("loss_scale")) manifest.loss_scale = loss_scale_of(document.at("loss_scale"));
  manifest.sequences = document.at("sequences").as_int64(0, most_run_steps << 24);
  manifest.seed = parse_number<std::uint64_t>(document.at("seed"), 10, "expected a string of decimal digits below 2^64");
  manifest.data_fingerprint = document.get_string("data_fingerprint");
  if (document.has("data")) manifest.data = document.at("data").one_line();
  manifest.training = document.get_string("training");
  manifest.tensors = document.get_string("tensors");
  if (document.has("frozen"))
    for (const auto& name : document.at("frozen").items()) manifest.frozen.push_back(name.as_string());
  manifest.exploded = document.get_bool("exploded");
  if (document.at("files").size() > most_files) document.at("files").refuse(flotilla::text("expected at most ", most_files, " files"));
  for (const auto& file : document.at("files").items()) manifest.files.push_back(file_of(file));
  const Json provenance = document.at("provenance");
  if (provenance.size() > most_provenance) provenance.refuse(flotilla::text("expected at most ", most_provenance, " keys"));
  for (const auto& key : provenance.keys()) manifest.provenance.emplace_back(key, provenance.get_string(key));
  manifest.plan = document_of(document.at("plan"));
  manifest.profile = document_of(document.at("profile"));
  return manifest;
}

}  // namespace flotilla::checkpoint
