#pragma once
#include <string>
#include <vector>

#include "flotilla/bench/report.hpp"

/// A report row by row, for text and page alike. Words of nodes are as they came.
namespace flotilla::app {

/// A figure of the nodes of a type.
struct FigureRow {
  std::string figure;               ///< bench::MeasuredFigure::name
  std::string title;                ///< "memory bandwidth", "training of gpt2"
  std::string median, worst, host;  ///< the latter two are empty where one node has it
};
struct TypeRows {
  std::string type;
  std::ptrdiff_t nodes = 0;
  std::vector<FigureRow> figures;
};
std::vector<TypeRows> figure_rows(const bench::BenchReport&);
/// "memory bandwidth", "training of gpt2".
std::string figure_title(const std::string& figure);

/// Of each link that was measured alone: link, transport, latency of 8 B, largest size, and rates one way, both ways and of put at it; or
/// link, transport and why it was not measured.
std::vector<std::vector<std::string>> link_rows(const bench::BenchReport&);
/// "n1 - n2", "inside n1".
std::string link_name(const bench::LinkReport&);
/// "ucx", "tcp", "mpi".
std::string transport_name(const bench::LinkReport&);

/// Of each collective: group, ranks, smallest, largest, and what the proof says.
std::vector<std::vector<std::string>> collective_rows(const bench::BenchReport&);

/// "96 of 2016 pairs of nodes measured"; "" where none was.
std::string pairs_in_words(const bench::BenchReport&);

}  // namespace flotilla::app
