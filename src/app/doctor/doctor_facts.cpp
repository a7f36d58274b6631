#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "app/common/batch_job.hpp"
#include "app/common/versions.hpp"
#include "app/doctor/doctor.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/gpu_rates.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/health/disk.hpp"
#include "flotilla/health/node_test.hpp"
#include "flotilla/mpi/device_memory.hpp"
#include "flotilla/nccl/library.hpp"
#include "flotilla/store/disk.hpp"
#include "flotilla/topology/topology.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

constexpr Bytes least_room{1 << 30};

double wall_clock() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// The step's GPUs on this node, else the job's: "0,1,3".
int gpus_given() {
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
    if (const char* list = std::getenv(name); list != nullptr && *list != '\0')
      return static_cast<int>(std::ranges::count(std::string_view{list}, ',')) + 1;
  return 0;
}

/// Files of NVIDIA's driver, one a GPU: /dev/nvidia0, ...
int gpu_files() {
  constexpr std::string_view prefix = "nvidia";
  int count = 0;
  std::error_code failed;
  for (fs::directory_iterator entry{"/dev", failed}, end; !failed && entry != end; entry.increment(failed)) {
    const auto name = entry->path().filename().string();
    count += name.size() > prefix.size() && name.starts_with(prefix) && name.find_first_not_of("0123456789", prefix.size()) == name.npos;
  }
  return count;
}

/// The nearest folder above that exists: a run directory is made by the run.
fs::path existing_part(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path);
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

std::string try_directory(const std::string& directory) {
  const auto folder = existing_part(directory);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return text(folder.string(), " is not a folder");
  const auto file = folder / text(".flotilla-doctor-", files::unguessable());
  try {
    files::write_text(file, "may be deleted\n", files::Flush::no);
  } catch (const Error&) {
    return text(folder.string(), " cannot be written");
  }
  fs::remove(file, ignored);
  const auto room = store::free_space(folder);
  return room < least_room ? text("only ", room, " are free on the file system of ", folder.string()) : "";
}

namespace {

GpuFacts gpu_facts(const gpu::DeviceFacts& device, int driver_version, const std::vector<topology::Gpu>& on_bus) {
  GpuFacts facts{device.uuid, device.name, {}, device.memory, {}, compute::why_no_kernels(device, driver_version)};
  const auto is_device = [&](const topology::Gpu& gpu) { return gpu::same_bus(gpu.bus_id, device.pci_bus_id); };
  if (const auto place = std::ranges::find_if(on_bus, is_device); place != on_bus.end()) facts.near = place->near;
  if (const auto figures = gpu::figures(device.pci_bus_id)) facts.used = figures->memory_used;
  return facts;
}

/// Ranks with the same GPU must have the same versions; partitions with other GPUs may have others.
void add_libraries(RankFacts& facts) {
  const auto add = [&](const std::pair<std::string, std::string>& entry) {
    if (std::ranges::find(facts.software, entry) == facts.software.end()) facts.software.push_back(entry);
  };
  for (auto& gpu : facts.gpus) try {
      add({text("cuBLASLt of ", gpu.name), compute::product_library()});
      if (compute::has_attention_library()) add({text("cuDNN of ", gpu.name), compute::attention_library()});
    } catch (const Error& error) {
      if (gpu.no_kernels.empty()) gpu.no_kernels = error.what();
    }
}

void add_gpus(RankFacts& facts, const std::vector<topology::Gpu>& on_bus) {
  try {
    const gpu::Presence found = gpu::presence();
    facts.why_no_gpu = found.why_none;
    if (found.driver_version > 0) facts.gpu_driver = gpu::driver_name(found);
    for (const auto& device : found.devices) facts.gpus.push_back(gpu_facts(device, found.driver_version, on_bus));
    add_libraries(facts);
    if (facts.gpus.empty()) return;
    facts.why_no_nccl = nccl::presence().why_none;
    facts.why_no_device_mpi = mpi::why_no_device_memory();
  } catch (const Error& error) {
    facts.why_no_gpu = error.what();
  }
}

}  // namespace

RankFacts rank_facts(const Job& job) {
  RankFacts facts;
  const auto node = topology::this_node();
  facts.host = node.host;
  facts.usable = node.usable;
  facts.processing_units = node.processing_units;
  facts.cpu_limit = node.limits.cpus;
  facts.software = versions();
  facts.directory_trouble = try_directory(job.run.directory);
  facts.partition = batch_job(job).zone;
  facts.clock = wall_clock();
  facts.gpus_given = gpus_given();
  facts.gpus_there = gpu_files();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.gpus_visible = visible;
  add_gpus(facts, node.gpus);
  return facts;
}

NodeFacts node_facts(const Job& job) {
  constexpr Bytes little{16 << 20};  // enough to see a slow file server, little enough for everybody at once
  constexpr Seconds at_most{4};
  NodeFacts facts;
  facts.properties = health::identify({}).properties;
  try {
    const auto rates = health::test_disk(existing_part(job.run.directory), little, at_most);
    facts.write = rates.write;
    facts.read = rates.read;
  } catch (const Error& error) {
    facts.no_rates = error.what();
  }
  return facts;
}

namespace {

std::string json_of(const NodeFacts& facts) {
  files::JsonLine properties, line;
  for (const auto& p : facts.properties) properties.add(p.name, p.value);
  line.add_json("properties", properties.text())
      .add("write", facts.write.value)
      .add("read", facts.read.value)
      .add("no_rates", facts.no_rates);
  return line.text();
}

NodeFacts node_from(const files::Json& json) {
  NodeFacts facts{{}, {json.get_double("write", 0)}, {json.get_double("read", 0)}, json.get_string("no_rates")};
  const auto properties = json.at("properties");
  for (const auto& name : properties.keys()) facts.properties.push_back({name, properties.get_string(name)});
  return facts;
}

std::string json_of(const std::vector<int>& numbers) {
  return files::json_array(std::vector<std::int64_t>{numbers.begin(), numbers.end()});
}

std::vector<int> numbers_from(const files::Json& list) {
  std::vector<int> numbers;
  for (const auto& number : list.items()) numbers.push_back(number.as_int(0));
  return numbers;
}

std::string json_of(const std::vector<GpuFacts>& gpus) {
  std::string list;
  for (const auto& gpu : gpus) {
    files::JsonLine line;
    line.add("uuid", gpu.uuid).add("name", gpu.name).add_json("near", json_of(gpu.near));
    line.add("memory", gpu.memory.count).add("used", gpu.used.count).add("no_kernels", gpu.no_kernels);
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

std::vector<GpuFacts> gpus_from(const files::Json& list) {
  std::vector<GpuFacts> gpus;
  for (const auto& gpu : list.items())
    gpus.push_back({gpu.get_string("uuid"), gpu.get_string("name"), numbers_from(gpu.at("near")), Bytes{gpu.get_int64("memory")},
                    Bytes{gpu.get_int64("used")}, gpu.get_string("no_kernels")});
  return gpus;
}

}  // namespace

std::string to_json(const RankFacts& f) {
  files::JsonLine line;
  line.add("host", f.host).add_json("usable", json_of(f.usable));
  line.add("processing_units", f.processing_units).add("cpu_limit", f.cpu_limit).add("clock", f.clock);
  files::JsonLine software;
  for (const auto& [name, version] : f.software) software.add(name, version);
  line.add_json("software", software.text()).add("directory_trouble", f.directory_trouble).add("sees_token", f.sees_token);
  line.add("gpus_given", f.gpus_given).add("gpus_there", f.gpus_there).add("gpus_visible", f.gpus_visible);
  line.add("gpu_driver", f.gpu_driver).add("why_no_gpu", f.why_no_gpu).add_json("gpus", json_of(f.gpus));
  line.add("why_no_nccl", f.why_no_nccl).add("why_no_device_mpi", f.why_no_device_mpi);
  if (f.node) line.add_json("node", json_of(*f.node));
  return line.add("partition", f.partition).text();
}

RankFacts rank_facts_from(const std::string& json) {
  const auto document = files::Json::parse(json, "a rank's facts");
  RankFacts f;
  f.host = document.get_string("host");
  f.usable = numbers_from(document.at("usable"));
  f.processing_units = document.get_int("processing_units", 0);
  f.cpu_limit = document.get_double("cpu_limit", 0);
  f.clock = document.get_double("clock");
  const auto software = document.at("software");
  for (const auto& name : software.keys()) f.software.emplace_back(name, software.get_string(name));
  f.directory_trouble = document.get_string("directory_trouble");
  f.sees_token = document.get_bool("sees_token");
  f.gpus_given = document.get_int("gpus_given", 0);
  f.gpus_there = document.get_int("gpus_there", 0);
  f.gpus_visible = document.get_string("gpus_visible");
  f.gpu_driver = document.get_string("gpu_driver");
  f.why_no_gpu = document.get_string("why_no_gpu");
  f.gpus = gpus_from(document.at("gpus"));
  f.why_no_nccl = document.get_string("why_no_nccl");
  f.why_no_device_mpi = document.get_string("why_no_device_mpi");
  f.partition = document.get_string("partition");
  if (document.has("node")) f.node = node_from(document.at("node"));
  return f;
}

}  // namespace flotilla::app
