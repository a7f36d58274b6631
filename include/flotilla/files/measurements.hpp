#pragma once
#include <filesystem>
#include <vector>

#include "flotilla/bench/series.hpp"

/// What other programs leave of their measurements, as series of a bench report (docs/formats/bench.md). Each throws Error{bad_input} that
/// names the file and the place, and where there is no measurement at all.
namespace flotilla::files {

/// The JSON file that a program of NVIDIA's nccl-tests writes (`-J FILE`): times and bus bandwidths by size, out of place and in place, on
/// the hosts of its devices. Wrong values are the series' fault.
std::vector<bench::Series> read_nccl_tests(const std::filesystem::path&);

/// What `nvbandwidth -j` prints: a series for each test that ran, a point for each cell of its matrix; a fault for one that ended in an
/// error.
std::vector<bench::Series> read_nvbandwidth(const std::filesystem::path&);

/// What osu_latency, osu_bw, osu_bibw and osu_allreduce of the OSU micro-benchmarks print, one or several after each other; lines of others
/// in between are passed over.
std::vector<bench::Series> read_osu(const std::filesystem::path&);

}  // namespace flotilla::files
