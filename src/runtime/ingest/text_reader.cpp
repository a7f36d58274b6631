#include "text_reader.hpp"

#include <algorithm>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/data/format.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::ingest {
namespace {

constexpr std::size_t block_bytes = 1 << 20;

std::int64_t size_of(const std::filesystem::path& file) {
  std::error_code unknown;  // what is wrong with the file is said when it is opened
  const auto size = std::filesystem::file_size(file, unknown);
  return unknown ? 0 : static_cast<std::int64_t>(size);
}

/// The name without .gz or .zst.
std::filesystem::path plain_name(const std::filesystem::path& file) {
  const auto suffix = file.extension();
  return suffix == ".gz" || suffix == ".zst" ? file.stem() : file.filename();
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == line.npos; }

}  // namespace

bool is_json_lines(const std::filesystem::path& file) { return data::is_named_json(plain_name(file)); }

TextReader::TextReader(std::vector<std::filesystem::path> files, TextFormat format, ReadPosition from)
    : files_{std::move(files)}, format_{format}, at_{from} {
  for (std::size_t file = 0; file < at_.file; ++file) before_ += size_of(files_[file]);
  if (at_.file >= files_.size() || at_.offset == 0) return;
  stream_ = compression::InputStream::open(files_[at_.file]);
  stream_->skip(at_.offset);
}

bool TextReader::is_jsonl() const {
  if (format_ != TextFormat::automatic) return format_ == TextFormat::jsonl;
  return is_json_lines(files_[at_.file]);
}

/// True where there is something left to take; opens the next file when one has ended.
bool TextReader::open_next() {
  while (at_.file < files_.size()) {
    if (!stream_) stream_ = compression::InputStream::open(files_[at_.file]);
    fill(1);
    if (taken_ < ahead_.size()) return true;
    before_ += size_of(files_[at_.file]);
    at_ = {at_.file + 1, 0, 0};
    stream_.reset();
    ended_ = false;
  }
  return false;
}

/// At least so many bytes ahead, unless the file ends before.
void TextReader::fill(std::size_t bytes) {
  if (ahead_.size() - taken_ >= bytes || ended_) return;
  ahead_.erase(0, std::exchange(taken_, 0));
  while (ahead_.size() < bytes && !ended_) {
    const auto there = ahead_.size();
    const auto wanted = std::max(block_bytes, bytes - there);
    ahead_.resize(there + wanted);
    const auto count = stream_->read({ahead_.data() + there, wanted});
    ahead_.resize(there + count);
    ended_ = count < wanted;
  }
}

std::string TextReader::take(std::size_t bytes) {
  auto text = ahead_.substr(taken_, bytes);
  taken_ += bytes;
  at_.offset += static_cast<std::int64_t>(bytes);
  return text;
}

std::optional<DocumentPart> TextReader::next_line() {
  auto end = ahead_.find('\n', taken_);
  while (end == ahead_.npos && !ended_) {
    const auto searched = ahead_.size() - taken_;
    FLOTILLA_REQUIRE(searched <= longest_line, ErrorKind::bad_input, files_[at_.file].string(), ":", at_.line + 1, ": a line of more than ",
                     longest_line, " bytes; expected a JSON object on each line");
    fill(searched + 1);
    end = ahead_.find('\n', taken_ + searched);
  }
  const auto bytes = end == ahead_.npos ? ahead_.size() - taken_ : end + 1 - taken_;
  ++at_.line;
  DocumentPart item{.bytes = take(bytes), .place = text(files_[at_.file].string(), ":", at_.line), .json = true};
  return is_blank(item.bytes) ? std::nullopt : std::optional{std::move(item)};
}

std::optional<DocumentPart> TextReader::next_part() {
  fill(part_bytes + 1);
  const std::string_view there = std::string_view{ahead_}.substr(taken_);
  const bool first = at_.offset == 0, last = there.size() <= part_bytes;
  auto bytes = there.size();
  if (!last) {
    const auto line = there.substr(0, part_bytes).rfind('\n');
    bytes = line == there.npos ? part_bytes : line + 1;
    for (int back = 0; back < 3 && line == there.npos && !unicode::begins_character(there[bytes]); ++back) --bytes;
  }
  return DocumentPart{.bytes = take(bytes), .place = files_[at_.file].string(), .first = first, .last = last};
}

std::optional<DocumentPart> TextReader::next_item() { return is_jsonl() ? next_line() : next_part(); }

std::optional<Batch> TextReader::next() {
  Batch batch;
  for (std::size_t bytes = 0; bytes < batch_bytes && open_next();) {
    if (batch.items.empty()) batch.file = at_.file;
    if (at_.file != batch.file) break;
    auto item = next_item();
    if (!item) continue;
    bytes += item->bytes.size();
    batch.items.push_back(std::move(*item));
  }
  if (batch.items.empty()) return std::nullopt;
  batch.after = at_;
  batch.read_bytes = before_ + (stream_ ? stream_->consumed() : 0);
  return batch;
}

}  // namespace flotilla::ingest
