#pragma once
#include <string>
#include <vector>

#include "app/bench/bench_text.hpp"

/// A report row by row, for text and page alike. Words of nodes are as they came.
namespace flotilla::app {

/// What text and page both show. A row that is shorter than the head ends in words of its own.
struct SharedTable {
  struct Column {
    std::string title;
    bool number = false;
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};
/// Without columns that no whole row fills.
SharedTable filled(SharedTable);

/// The figures of the nodes of a type: the median and the worst, or the only one; what is usual, and what the catalogue says.
struct TypeRows {
  std::string type;
  std::ptrdiff_t nodes = 0;
  SharedTable figures;
};
std::vector<TypeRows> figure_rows(const BenchResult&);
/// "memory bandwidth", "training of gpt2".
std::string figure_title(const std::string& figure);

/// Of each link that was measured alone: link, transport, latency of 8 B, largest size, and rates one way, both ways and of put at it; or
/// link, transport and why it was not measured.
SharedTable link_rows(const bench::BenchReport&);
/// "n1 - n2", "inside n1".
std::string link_name(const bench::LinkReport&);
/// "ucx", "tcp", "mpi".
std::string transport_name(const bench::LinkReport&);

/// Of each collective: group, ranks, smallest, largest, and what the proof says.
SharedTable collective_rows(const bench::BenchReport&);

/// "96 of 2016 pairs of nodes measured"; "" where none was.
std::string pairs_in_words(const bench::BenchReport&);

}  // namespace flotilla::app
