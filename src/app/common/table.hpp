#pragma once
#include <string>
#include <vector>

namespace flotilla::app {

/// What the place that text goes to can show.
struct Style {
  bool colour = false;   ///< bold headers; only on a terminal
  bool unicode = false;  ///< lines that join; only on a terminal in a UTF-8 locale
};
/// Of this process's standard output. NO_COLOR is obeyed.
Style output_style();
/// Columns of the terminal that standard output is, within 80 … 100; 96 where it is none.
int output_width();

/// "a, b, c".
std::string joined(const std::vector<std::string>& words, const char* between = ", ");

enum class Align { left, right };

/// A table of text with aligned columns. Rows that are shorter than the header end in empty cells.
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit TextTable(std::vector<Column> columns) : columns_{std::move(columns)} {}

  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }

  /// Every line ends in a newline and none in a blank.
  std::string print(const Style& = {}) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace flotilla::app
