#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "flotilla/comm/world.hpp"
#include "flotilla/data/sampler.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/train/trainer.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

namespace flotilla::tests {

inline constexpr Seconds patience = hang_bound();

/// The one session of a test program whose main has started MPI.
inline mpi::Session& session() {
  static mpi::Session one;
  return one;
}

inline const comm::World& everybody() {
  static const comm::World world{session().world(), patience};
  return world;
}

/// This rank alone, as a world of its own.
inline const comm::World& myself() {
  static const int me = session().world().rank();
  static const comm::World world{session().world().subset(std::vector<int>{me}), patience};
  return world;
}

/// The same pseudo-random text on every rank, in a file of this process's own.
inline const std::filesystem::path& text_file() {
  static const TemporaryFolder folder;
  static const std::filesystem::path path = [] {
    const auto name = folder / "text.txt";
    std::mt19937 random{99};
    std::ofstream out{name};
    for (int i = 0; i < 20000; ++i) out << static_cast<char>('a' + std::uniform_int_distribution<int>{0, 25}(random));
    return name;
  }();
  return path;
}

inline data::SamplerOptions sampling(const plan::Plan& plan, std::uint64_t seed = 5) {
  return {.seed = seed, .length = plan.length, .global_batch = plan.global_batch, .vocabulary = plan.model.vocabulary};
}

inline data::Sampler sampler(const plan::Plan& plan, std::uint64_t seed = 5) {
  data::CorpusOptions options;
  options.training = {text_file()};
  options.format = data::Format::text;
  options.validation_fraction = 0;
  return {data::open_corpora(options).training, sampling(plan, seed)};
}

/// FLOTILLA_TEST_DEVICE: on what the ranks of a test compute: gpu, or mixed, where every other one of the world does. By itself (myself())
/// a rank is on a CPU.
inline std::string test_device() {
  const char* device = std::getenv("FLOTILLA_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}
/// A stand-in for a GPU takes a hundred times as long as a CPU: there, sequences are short, and of all families two are enough, with biases
/// and without. That the others' kernels compute what CPUs do is compute_gradients_test's to show.
inline int short_on_gpus(int length) { return test_device() == "cpu" ? length : std::min(length, 8); }
inline std::vector<std::string> families(std::vector<std::string> all) {
  if (test_device() != "cpu") all.resize(2);
  return all;
}
inline compute::ComputeDevice device_of(const comm::World& crew) {
  const bool on_gpu = test_device() == "gpu" || (test_device() == "mixed" && everybody().rank().value % 2 == 0);
  compute::ComputeDevice device{on_gpu && &crew != &myself() ? cluster::DeviceKind::gpu : cluster::DeviceKind::cpu, 0};
  // FLOTILLA_TEST_ATTENTION=cudnn: by cuDNN, where it may be.
  const char* attention = std::getenv("FLOTILLA_TEST_ATTENTION");
  if (attention != nullptr && std::string{attention} == "cudnn") device.attention = compute::AttentionKernel::cudnn;
  return device;
}

/// FLOTILLA_TEST_TRANSPORT: device-mpi: between GPUs, in place of NCCL.
inline cluster::Transport test_transport(cluster::Transport otherwise) {
  const char* transport = std::getenv("FLOTILLA_TEST_TRANSPORT");
  return transport != nullptr && std::string{transport} == "device-mpi" ? cluster::Transport::device_mpi : otherwise;
}

/// The same job on one rank, in microbatches of two sequences.
inline plan::Plan on_one_rank(const plan::Plan& plan) {
  return plan::even_plan(plan.model, plan.length, plan.global_batch, plan.precision, 1, 1, 1, 2);
}

inline program::Runtime runtime() {
  program::Runtime runtime;
  runtime.threads = 1;
  runtime.library_scratch = test_device() == "cpu" ? Bytes{4 << 20} : Bytes{40 << 20};
  return runtime;
}

/// Trains and evaluates on `data`, by programs for `runtime`.
inline std::unique_ptr<train::Trainer> trainer_on(const data::Sampler& data, const comm::World& crew, const plan::Plan& plan,
                                                  const program::Runtime& runtime, train::Options options = {}) {
  options.deadline = std::min(options.deadline, patience);
  options.device = device_of(crew);
  options.transport = test_transport(options.transport);
  auto program = program::lower(plan, runtime);
  program::require_valid(program);
  auto evaluation = program::lower_evaluation(plan, runtime, plan.global_batch);
  program::require_valid(evaluation);
  auto made = std::make_unique<train::Trainer>(crew, std::move(program), std::move(evaluation), data, data, options);
  made->initialize();
  return made;
}

inline std::unique_ptr<train::Trainer> trainer(const comm::World& crew, const plan::Plan& plan, const train::Options& options = {},
                                               const program::RankLocations& placement = {}, bool library_all_reduce = false) {
  auto placed = runtime();
  placed.placement = placement;
  placed.library_all_reduce = library_all_reduce;
  return trainer_on(sampler(plan), crew, plan, placed, options);
}

}  // namespace flotilla::tests
