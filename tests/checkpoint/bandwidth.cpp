// checkpoint_bandwidth FOLDER MEBIBYTES [TENSOR_PARALLEL]: saves and loads about so much state, beside a plain write and read of the same
// bytes by the same ranks; one line.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "checkpoint/holding.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/mpi/session.hpp"

namespace flotilla::checkpoint {
namespace {

constexpr Seconds deadline{300};

model::Config sized(std::int64_t mebibytes) {
  // Three copies of a block of 12 * hidden^2 floats each.
  model::Config config{.name = "bandwidth",
                       .family = "gpt2",
                       .blocks = 1,
                       .hidden = 1024,
                       .heads = 16,
                       .feed_forward = 4096,
                       .vocabulary = 256,
                       .positions = 16,
                       .embedding_width = 1024};
  config.blocks = static_cast<int>(std::max<std::int64_t>(1, mebibytes / 144));
  return config;
}

template <class Work>
double seconds(const comm::World& world, Work&& work) {
  mpi::barrier(world.control(), deadline);
  const Seconds start = now();
  work();
  mpi::barrier(world.control(), deadline);
  return (now() - start).value;
}

/// Each rank its owned bytes, one after the other in one file, and fsync.
void plain_write(const comm::World& world, const std::string& path, const LocalState& state) {
  std::int64_t mine = 0;
  for (const auto& part : state.parts) mine += part.owner ? 3 * part.shard.elements() * 4 : 0;
  const auto all = mpi::all_gather(world.control(), mine, deadline);
  std::int64_t offset = 0;
  for (int r = 0; r < world.rank().value; ++r) offset += all[static_cast<std::size_t>(r)];
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0666);
  for (const auto& part : state.parts)
    for (auto kind : kinds)
      if (part.owner) {
        const auto bytes = std::as_bytes(part.values(kind));
        FLOTILLA_REQUIRE(::pwrite(file, bytes.data(), bytes.size(), offset) == std::ssize(bytes), ErrorKind::unavailable, path);
        offset += std::ssize(bytes);
      }
  ::fsync(file);
  ::close(file);
}

void plain_read(const comm::World& world, const std::string& path, std::int64_t size) {
  const auto share = model::share(size, world.size(), world.rank().value);
  std::vector<std::byte> bytes(1 << 20);
  const int file = ::open(path.c_str(), O_RDONLY);
  for (std::int64_t offset = share.first; offset < share.last;) {
    const auto count = ::pread(file, bytes.data(), static_cast<std::size_t>(std::min(share.last - offset, std::ssize(bytes))), offset);
    FLOTILLA_REQUIRE(count > 0, ErrorKind::unavailable, path);
    offset += count;
  }
  ::close(file);
}

void measure(const std::filesystem::path& folder, std::int64_t mebibytes, int tensor_parallel) {
  const mpi::Session session;
  const comm::World world{session.world(), deadline};
  const auto config = sized(mebibytes);
  const int pipeline = world.size() / tensor_parallel;
  const auto plan = plan::even_plan(config, 16, 16, Precision::fp32, 1, pipeline, tensor_parallel, 1);
  Holding holding{plan, world.rank()};
  const auto plain = (folder / "plain").string();
  Manifest manifest;
  for (std::int64_t round = 1; round <= 4; ++round) {
    manifest.step = round;
    SaveReport report;
    if (world.rank().value == 0) std::filesystem::remove(plain);  // a new file, as a checkpoint is
    const double write = seconds(world, [&] { plain_write(world, plain, holding.state()); });
    const double save = seconds(world, [&] {
      report = checkpoint::save(world, folder, holding.state(), manifest, {.keep = 1, .deadline = deadline, .on_phase = {}});
    });
    const double read = seconds(world, [&] { plain_read(world, plain, static_cast<std::int64_t>(std::filesystem::file_size(plain))); });
    const double load = seconds(world, [&] { checkpoint::load(world, report.directory, holding.state(), {deadline}); });
    const double megabytes = static_cast<double>(report.size.count) / 1e6;
    if (world.rank().value == 0)
      std::cout << megabytes << " MB: plain write " << megabytes / write << " MB/s, save " << megabytes / save << " MB/s (" << save / write
                << "x the time: checksums " << report.checksum << ", write " << report.write << ", flush " << report.flush << ", verify "
                << report.verify << "); plain read " << megabytes / read << " MB/s, load " << megabytes / load << " MB/s (" << load / read
                << "x)" << std::endl;
  }
  if (world.rank().value == 0) {
    std::filesystem::remove(plain);
    std::filesystem::remove_all(step_directory(folder, 4));
  }
}

}  // namespace
}  // namespace flotilla::checkpoint

int main(int count, char** arguments) {
  if (count < 3) return 64;
  flotilla::checkpoint::measure(arguments[1], std::atoll(arguments[2]), count > 3 ? std::atoi(arguments[3]) : 1);
}
