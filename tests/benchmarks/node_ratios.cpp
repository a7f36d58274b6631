// What `flotilla bench` measures of a node beside other people's arithmetic, in turns, on this machine: matrix products beside oneDNN's own
// primitive timed alone, memory bandwidth beside STREAM's triad (McCalpin 1995) in OpenMP. Issue 18 allows 3 % and 5 %. Medians of the
// ratios, and their range. For a machine that runs nothing else; fabric_benchmark.sh prints these with the links' ratios.
//
//   node_ratios [--quick] [--rounds N] [--threads N]
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/probe/device.hpp"
#include "flotilla/topology/threads.hpp"
#include "flotilla/topology/topology.hpp"

namespace {

using namespace flotilla;

struct Setting {
  int rounds = 9, threads = 0;
  Seconds budget{0.5};  ///< of each sample
};

Setting read(int count, char** words) {
  Setting s;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--quick")
      s.rounds = 1, s.budget = Seconds{0.05};
    else if (word == "--rounds" && has_value)
      s.rounds = std::max(1, std::atoi(words[++i]));
    else if (word == "--threads" && has_value)
      s.threads = std::max(1, std::atoi(words[++i]));
    else {
      std::fprintf(stderr, "node_ratios takes --quick, --rounds N and --threads N, not '%s'\n", word.c_str());
      std::exit(64);
    }
  }
  if (s.threads == 0) {
    const auto node = topology::this_node();
    s.threads = topology::effective_cpus(static_cast<int>(node.usable.size()), node.limits.cpus);
  }
  return s;
}

/// The product that probe::peak() measures, as oneDNN multiplies it by itself: the weights as linear layers have them.
class Primitive {
 public:
  Primitive(Precision precision, int threads) : threads_{threads}, rows_{128L * threads} {
    using dnnl::memory;
    omp_set_num_threads(threads);
    const auto type = precision == Precision::fp32 ? memory::data_type::f32 : memory::data_type::bf16;
    const memory::desc a{{rows_, inner}, type, memory::format_tag::ab}, b{{inner, columns}, type, memory::format_tag::ba},
        c{{rows_, columns}, type, memory::format_tag::ab};
    product_ = dnnl::matmul{dnnl::matmul::primitive_desc{dnnl::matmul::desc{a, b, c}, engine_}};
    for (const auto& desc : {a, b, c}) memories_.emplace_back(desc, engine_);
    for (auto& m : memories_)
      std::fill_n(static_cast<unsigned char*>(m.get_data_handle()), m.get_desc().get_size(), static_cast<unsigned char>(0));
  }
  double flops(Seconds budget) {
    Seconds best{1e30};
    const Seconds end = now() + budget;
    run();
    for (int r = 0; r < 3 || now() < end; ++r) {
      const Seconds start = now();
      run();
      best = std::min(best, now() - start);
    }
    return 2.0 * static_cast<double>(rows_) * inner * columns / best.value;
  }

 private:
  static constexpr long inner = 512, columns = 2048;
  void run() {
    product_.execute(stream_, {{DNNL_ARG_SRC, memories_[0]}, {DNNL_ARG_WEIGHTS, memories_[1]}, {DNNL_ARG_DST, memories_[2]}});
    stream_.wait();
  }
  int threads_;
  long rows_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul product_;
  std::vector<dnnl::memory> memories_;
};

/// Huge pages where the kernel has them, as the trainer's memory and the bench's. STREAM's static arrays have them where an administrator
/// says "always"; pages of 4 KiB take a tenth to a third of the rate here, which would be a ratio of pages and not of arithmetic.
struct HugePages {
  explicit HugePages(std::size_t size) : data{static_cast<double*>(std::aligned_alloc(huge, (size + huge - 1) / huge * huge))} {
    madvise(data, size, MADV_HUGEPAGE);
  }
  ~HugePages() { std::free(data); }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  static constexpr std::size_t huge = 2 << 20;
  double* const data;
};

/// STREAM's triad in double, best of ten, three transfers per element.
double stream_triad(int threads, Bytes bytes) {
  const auto count = bytes.count / 3 / static_cast<std::int64_t>(sizeof(double));
  const HugePages pages{static_cast<std::size_t>(3 * count) * sizeof(double)};  // touched in parallel, below
  double *const pa = pages.data, *const pb = pa + count, *const pc = pb + count;
  Seconds best{1e30};
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < count; ++i) pa[i] = 0, pb[i] = 1, pc[i] = 2;
  for (int round = 0; round < 10; ++round) {
    const Seconds start = now();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t i = 0; i < count; ++i) pa[i] = pb[i] + 3.0 * pc[i];
    if (round > 0) best = std::min(best, now() - start);
  }
  return 3.0 * static_cast<double>(count) * sizeof(double) / best.value;
}

void print_ratios(const char* what, int rounds, double allowed, const std::function<double()>& ours,
                  const std::function<double()>& theirs) {
  std::vector<double> ratios;
  for (int r = 0; r < rounds; ++r) {
    const double mine = ours();
    ratios.push_back(mine / theirs());
  }
  std::ranges::sort(ratios);
  std::printf("%-24s %6.3f  (%.3f to %.3f, %d rounds; 1 within %.0f %%)\n", what, ratios[ratios.size() / 2], ratios.front(), ratios.back(),
              rounds, 100 * allowed);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const auto s = read(count, words);
  std::printf("ours divided by theirs, %d threads\n", s.threads);
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    try {
      Primitive primitive{precision, s.threads};
      print_ratios(
          precision == Precision::fp32 ? "matrix products, fp32" : "matrix products, bf16", s.rounds, 0.03,
          [&] { return probe::peak(precision, s.threads, s.budget).value; }, [&] { return primitive.flops(s.budget); });
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", to_string(precision).c_str(), error.what());
    }
  }
  const auto node = topology::this_node();
  const Bytes size = probe::triad_size(node.last_level_cache, node.memory_available);
  print_ratios(
      "memory bandwidth", s.rounds, 0.05, [&] { return probe::memory_bandwidth(s.threads, size).value; },
      [&] { return stream_triad(s.threads, size); });
  return 0;
}
