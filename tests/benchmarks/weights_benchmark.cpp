// Weights in and weights out beside the disk alone: loads of a sharded model into the ranks of a plan, and exports of a checkpoint, in
// turns with plain reads and writes of as many bytes, caches dropped before each.
//
//   mpirun -n 4 weights_benchmark [--blocks N] [--pipeline P] [--tensor T] [--pairs N] [--export] [--folder DIRECTORY]
//   mpirun -n 4 weights_benchmark --quick      smaller, and fails where a rank's memory is more than 5 % above its share
//
// The model has the shapes of Llama-2-13B's layers, and as many blocks as the memory at hand can train. Its elements are bf16.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <random>

#include "checkpoint/holding.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "flotilla/safetensors/writer.hpp"
#include "flotilla/weights/export.hpp"
#include "flotilla/weights/load.hpp"
#include "sources.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla {
namespace {

namespace fs = std::filesystem;
using checkpoint::Holding;

constexpr Seconds deadline{3600};
constexpr double mebibyte = 1 << 20;
/// What a rank may have over its share, parameters and moments in fp32: pages of the files, and what finds them. Of the quick model, this
/// is 34 MiB; a whole copy of it in bf16 would be 454 MiB.
constexpr double allowed_over_share = 0.05;

struct Options {
  int blocks = 2, pipeline = 1, tensor = 4, pairs = 5;
  bool quick = false, exports = false;
  bool judged = true;  ///< whether memory above the share is too much: of a small model, what finds the pages counts
  fs::path folder = ".";
};

Options parsed(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (word == "--quick")
      o = {.blocks = 4, .pipeline = 1, .tensor = 4, .pairs = 1, .quick = true};
    else if (word == "--export")
      o.exports = true;
    else if (word == "--blocks")
      o.blocks = number();
    else if (word == "--pipeline")
      o.pipeline = number();
    else if (word == "--tensor")
      o.tensor = number();
    else if (word == "--pairs")
      o.pairs = number();
    else if (word == "--folder" && i + 1 < argc)
      o.folder = argv[++i];
  }
  return o;
}

model::Config model_of(const Options& o) {
  auto c = model::built_in("llama-2-13b");
  c.blocks = o.blocks;
  if (!o.quick) return c;
  c.hidden = c.embedding_width = o.exports ? 1024 : 2048;
  c.heads = 16;
  c.feed_forward = o.exports ? 2816 : 5632;
  c.vocabulary = 8000;
  return c;
}

/// Shards of at most 1 GB, one element like another: reading does not know.
void write_model(const fs::path& folder, const model::Config& config) {
  std::vector<float> values(1 << 20);
  std::mt19937 random{3};
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-36f;
  std::vector<safetensors::Declared> declared;
  std::map<std::string, std::string> file_of;
  std::int64_t bytes = 0, all = 0;
  int shard = 1;
  const auto finish = [&] {
    const auto name = text("model-", shard++, ".safetensors");
    safetensors::Writer writer{folder / name, declared, Precision::bf16};
    for (const auto& tensor : declared) {
      file_of[tensor.name] = name;
      for (std::int64_t left = tensor.elements(); left > 0; left -= std::min(left, std::ssize(values)))
        writer.write(std::span{values}.first(static_cast<std::size_t>(std::min(left, std::ssize(values)))));
    }
    writer.close();
    declared.clear();
    bytes = 0;
  };
  for (const auto& parts : weights::sources(config))
    for (const auto& source : parts) {
      declared.push_back({source.name, source.shape});
      bytes += declared.back().elements() * 2;
      all += declared.back().elements() * 2;
      if (bytes > 1'000'000'000) finish();
    }
  if (!declared.empty()) finish();
  files::write_text(folder / safetensors::index_name, safetensors::index_text(file_of, all));
  files::write_text(folder / "config.json", files::hugging_face_config_to_json(config, Precision::bf16, {}));
}

Descriptor opened(const fs::path& path, int flags) {
  Descriptor file{::open(path.c_str(), flags | O_CLOEXEC, 0600)};
  FLOTILLA_REQUIRE(file, ErrorKind::unavailable, path.string(), ": cannot be opened");
  return file;
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator{folder})
    if (entry.path().extension() == ending) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

void drop_caches(const std::vector<fs::path>& paths) {
  for (const auto& path : paths) {
    const auto file = opened(path, O_RDONLY);
    ::fsync(file.get());
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

/// Bytes [first, last) of the files one after the other, 4 MiB at a time.
void read_plainly(const std::vector<fs::path>& paths, std::int64_t first, std::int64_t last) {
  std::vector<char> buffer(4 << 20);
  std::int64_t begin = 0;
  for (const auto& path : paths) {
    const auto size = static_cast<std::int64_t>(fs::file_size(path)), end = begin + size;
    const auto file = opened(path, O_RDONLY);
    for (auto at = std::max(first, begin); at < std::min(last, end);) {
      const auto got = ::pread(file.get(), buffer.data(),
                               static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(buffer), std::min(last, end) - at)), at - begin);
      FLOTILLA_REQUIRE(got > 0, ErrorKind::unavailable, path.string(), ": cannot be read");
      at += got;
    }
    begin = end;
  }
}

/// So many bytes to a new file, and on the disk.
void write_plainly(const fs::path& path, std::int64_t bytes) {
  const std::vector<char> buffer(4 << 20, 'x');
  const auto file = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
  for (std::int64_t left = bytes; left > 0;) {
    const auto written = ::write(file.get(), buffer.data(), static_cast<std::size_t>(std::min<std::int64_t>(left, std::ssize(buffer))));
    FLOTILLA_REQUIRE(written > 0, ErrorKind::unavailable, path.string(), ": cannot be written");
    left -= written;
  }
  ::fsync(file.get());
}

/// A line of /proc/self/status, in bytes.
double status(const char* name) {
  std::ifstream in{"/proc/self/status"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name)) return std::atof(line.c_str() + std::strlen(name) + 1) * 1024;
  return 0;
}
void forget_peak() { std::ofstream{"/proc/self/clear_refs"} << 5; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// "0.93 (0.88 to 0.97)".
std::string ratios(const std::vector<double>& all) {
  const auto [least, most] = std::ranges::minmax_element(all);
  char line[64];
  std::snprintf(line, sizeof line, "%.2f (%.2f to %.2f)", median(all), *least, *most);
  return line;
}

class Benchmark {
 public:
  Benchmark(const comm::World& world, const Options& options, const fs::path& folder)
      : world_{world},
        options_{options},
        folder_{folder},
        config_{model_of(options)},
        plan_{plan::even_plan(config_, 64, 8, Precision::bf16, 1, options.pipeline, options.tensor, 1)} {}

  /// Whether memory was within bounds.
  bool run() {
    if (root()) {
      fs::create_directory(folder_ / "model");
      fs::create_directory(folder_ / "run");
      write_model(folder_ / "model", config_);
    }
    barrier();
    const bool within = import();
    if (options_.exports) exports();
    return within;
  }

 private:
  bool root() const { return world_.rank().value == 0; }
  void barrier() const { mpi::barrier(world_.control(), deadline); }

  /// Seconds until all ranks have done it, from caches that hold none of the files.
  template <class Work>
  double timed(const std::vector<fs::path>& paths, Work&& work) const {
    barrier();
    if (root()) drop_caches(paths);
    barrier();
    const Seconds begin = now();
    work();
    barrier();
    return (now() - begin).value;
  }

  bool import() {
    const auto paths = files_in(folder_ / "model", ".safetensors");
    std::int64_t bytes = 0;
    for (const auto& path : paths) bytes += static_cast<std::int64_t>(fs::file_size(path));
    const double before = status("VmRSS:");
    Holding holding{plan_, world_.rank()};
    double share = 0;
    for (const auto& part : holding.state().parts) share += 3 * 4.0 * static_cast<double>(part.shard.elements());
    std::vector<double> all;
    double over = 0;
    for (int pair = 0; pair < options_.pairs; ++pair) {
      const auto rank = world_.rank().value, ranks = world_.size();
      double raw = 0, ours = 0;
      const auto plainly = [&] { raw = timed(paths, [&] { read_plainly(paths, bytes * rank / ranks, bytes * (rank + 1) / ranks); }); };
      // In turns: whoever is second may find the files in a cache of the disk's host.
      if (pair % 2 == 0) plainly();
      forget_peak();
      ours = timed(paths, [&] { weights::load(world_, folder_ / "model", config_, holding.state(), deadline); });
      over = std::max(over, (status("VmHWM:") - before - share) / share);
      if (pair % 2 != 0) plainly();
      all.push_back(raw / ours);
      if (root()) std::printf("import: %.0f MB: plain %.2f s, ours %.2f s\n", static_cast<double>(bytes) / 1e6, raw, ours);
    }
    if (root()) std::printf("import: rate over that of plain reads: %s\n", ratios(all).c_str());
    const bool within = !options_.judged || over <= allowed_over_share;
    std::printf("rank %d: share %.0f MiB, peak %.1f %% above it%s\n", world_.rank().value, share / mebibyte, 100 * over,
                within ? "" : ": too much");
    save(holding);
    return within;
  }

  void save(const Holding& holding) {
    if (!options_.exports) return;
    checkpoint::Manifest manifest;
    manifest.step = 1;
    manifest.plan = files::plan_to_json(plan_);
    step_ = checkpoint::save(world_, folder_ / "run", holding.state(), manifest, {.deadline = deadline}).directory;
  }

  /// By one process, as its user starts it. A checkpoint's parameters are a third of it.
  void exports() {
    if (!root()) return barrier();
    const auto state = files_in(step_, ".h5");
    std::vector<double> all;
    double peak = 0;
    std::int64_t elements = 0;
    for (const auto& tensor : model::tensors(config_)) elements += tensor.elements();
    for (int pair = 0; pair < options_.pairs; ++pair) {
      drop_caches(state);
      const Seconds begin = now();
      read_plainly(state, 0, 4 * elements);
      write_plainly(folder_ / "plain", 2 * elements);
      const double raw = (now() - begin).value;
      fs::remove(folder_ / "plain");
      drop_caches(state);
      forget_peak();
      const double before = status("VmRSS:");
      const Seconds start = now();
      weights::export_hugging_face(step_, folder_ / "exported", {.precision = Precision::bf16, .shard_size = Bytes{1'000'000'000}});
      const double ours = (now() - start).value;
      peak = std::max(peak, status("VmHWM:") - before);
      fs::remove_all(folder_ / "exported");
      all.push_back(raw / ours);
      std::printf("export: %.0f MB to %.0f MB: plain %.2f s, ours %.2f s\n", 4e-6 * static_cast<double>(elements),
                  2e-6 * static_cast<double>(elements), raw, ours);
    }
    std::printf("export: rate over that of plain reads and writes: %s; memory %.0f MiB\n", ratios(all).c_str(), peak / mebibyte);
    barrier();
  }

  const comm::World& world_;
  const Options options_;
  const fs::path folder_;
  const model::Config config_;
  const plan::Plan plan_;
  fs::path step_;
};

int run(int argc, char** argv) {
  mpi::Session session;
  const comm::World world{session.world(), deadline};
  const auto options = parsed(argc, argv);
  std::optional<tests::TemporaryFolder> own;
  if (world.rank().value == 0) own.emplace(options.folder);
  const fs::path folder = mpi::broadcast_string(world.control(), own ? own->path().string() : "", 0, deadline);
  const bool within = Benchmark{world, options, folder}.run();
  mpi::barrier(world.control(), deadline);
  if (!options.quick) return 0;
  if (own) fs::create_directory(folder / "small");  // a checkpoint of the other would take longer than all of this
  mpi::barrier(world.control(), deadline);
  Benchmark{world, {.blocks = 2, .pipeline = 2, .tensor = 2, .pairs = 1, .quick = true, .exports = true, .judged = false}, folder / "small"}
      .run();
  return within ? 0 : 1;
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  try {
    return flotilla::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weights_benchmark: %s\n", error.what());
    return 69;
  }
}
