#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/measurements.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::files {
namespace {

/// A benchmark whose logs are read: what its first line calls it, and what its second column is.
struct Benchmark {
  std::string_view title;
  const char* program;
  const char* quantity;
  const char* unit;
  double scale;
};
constexpr double osu_microseconds = 1e-6, osu_megabytes = 1e6;
constexpr std::array<Benchmark, 4> benchmarks{
    Benchmark{"Latency Test", "osu_latency", bench::quantity::latency, bench::unit::seconds, osu_microseconds},
    Benchmark{"Bandwidth Test", "osu_bw", bench::quantity::one_way, bench::unit::bytes_per_second, osu_megabytes},
    Benchmark{"Bi-Directional Bandwidth Test", "osu_bibw", bench::quantity::both_ways, bench::unit::bytes_per_second, osu_megabytes},
    Benchmark{"Allreduce Latency Test", "osu_allreduce", bench::quantity::all_reduce, bench::unit::seconds, osu_microseconds}};

/// "# OSU MPI-CUDA Bandwidth Test v5.9" in its parts.
struct Title {
  std::string library, name, version;
};

std::optional<Title> title_in(const std::string& line) {
  constexpr std::string_view start = "# OSU ";
  const auto version = line.rfind(" v");
  if (!line.starts_with(start) || version == line.npos || version <= start.size()) return std::nullopt;
  const auto words = line.substr(start.size(), version - start.size());
  const auto blank = words.find(' ');
  if (blank == words.npos) return std::nullopt;
  const auto end = line.find_first_of(" \t\r", version + 2);
  return Title{words.substr(0, blank), words.substr(blank + 1), line.substr(version + 2, end == line.npos ? line.npos : end - version - 2)};
}

template <class T>
bool read_number(const std::string& word, T& value) {
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  return error == std::errc{} && rest == end && value >= 0;
}

/// Lines of a log, and the series that they make.
class Log {
 public:
  explicit Log(std::string source) : source_{std::move(source)} {}

  void add(const std::string& line) {
    ++number_;
    if (const auto title = title_in(line))
      begin(*title);
    else if (benchmark_ != nullptr)
      add_row(line);
  }
  std::vector<bench::Series> series() {
    std::erase_if(all_, [](const auto& series) { return series.points.empty(); });
    return std::move(all_);
  }

 private:
  /// Of a benchmark that is not read, its rows are passed over.
  void begin(const Title& title) {
    const auto known = std::ranges::find(benchmarks, title.name, &Benchmark::title);
    benchmark_ = known == benchmarks.end() ? nullptr : &*known;
    if (benchmark_ == nullptr) return;
    const auto program = title.library == "MPI" ? std::string{benchmark_->program} : text(benchmark_->program, ", ", title.library);
    all_.push_back({program, title.version, benchmark_->quantity, benchmark_->unit, {}, source_, {}, {}});
  }
  void add_row(const std::string& line) {
    std::istringstream words{line};
    std::string first, second;
    words >> first >> second;
    std::int64_t size = 0;
    if (!read_number(first, size)) return;
    double value = 0;
    FLOTILLA_REQUIRE(read_number(second, value) && std::isfinite(value), ErrorKind::bad_input, source_, ": line ", number_,
                     ": expected a number after the size, got ", in_quotes(second));
    all_.back().points.push_back({{size}, "", value * benchmark_->scale});
  }

  std::string source_;
  int number_ = 0;
  const Benchmark* benchmark_ = nullptr;
  std::vector<bench::Series> all_;
};

}  // namespace

std::vector<bench::Series> read_osu(const std::filesystem::path& path) {
  Log log{path.string()};
  std::istringstream lines{read_text(path)};
  for (std::string line; std::getline(lines, line);) log.add(line);
  auto series = log.series();
  FLOTILLA_REQUIRE(!series.empty(), ErrorKind::bad_input, path.string(),
                   ": no measurement; expected what osu_latency, osu_bw, osu_bibw or osu_allreduce prints, from \"# OSU MPI\" on");
  return series;
}

}  // namespace flotilla::files
