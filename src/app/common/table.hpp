#pragma once
#include <string>
#include <utility>
#include <vector>

namespace flotilla::app {

/// What the place that text goes to can show.
struct Style {
  bool colour = false;   ///< bold headers; only on a terminal
  bool unicode = false;  ///< lines that join; only on a terminal in a UTF-8 locale
};
/// Of this process's standard output. NO_COLOR is obeyed.
Style output_style();
/// Columns that tables take at most, whatever terminal they are on: they are read in log files, too.
inline constexpr int table_width = 80;
/// Columns of the terminal that standard output is, within 80 … 100; 80 where it is none.
int output_width();

/// key_values() whose lines end within `width` columns, broken at blanks.
std::string key_values_within(std::vector<std::pair<std::string, std::string>>, int width);

/// "a, b, c".
std::string joined(const std::vector<std::string>& words, const char* between = ", ");

enum class Align { left, right };

/// A table of text with aligned columns. Rows that are shorter than the header end in empty cells. Where a table would be wider than
/// table_width, cells and titles of its widest columns take several lines, broken at blanks, and inside of words only where a word is
/// longer than a column can be; where that does not do, columns stand closer and titles are broken anywhere. Figures are never broken.
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit TextTable(std::vector<Column> columns) : columns_{std::move(columns)} {}

  /// `note` is printed below the row as it is, indented.
  void add(std::vector<std::string> row, std::string note = {});
  bool empty() const { return rows_.empty(); }

  /// Every line ends in a newline and none in a blank.
  std::string print(const Style& = {}) const;

 private:
  std::vector<Column> columns_;
  struct Row {
    std::vector<std::string> cells;
    std::string note;
  };
  std::vector<std::size_t> widths() const;
  /// Widths of columns and of the gaps between them.
  struct Layout {
    std::vector<std::size_t> widths;
    std::size_t gap = 2;
  };
  Layout fitted() const;
  /// The widest columns made narrower until the table fits, none below its least width; whether it fits.
  bool narrow(Layout&, const std::vector<std::size_t>& least) const;
  std::string print_row(const std::vector<std::string>& cells, const Layout&) const;

  std::vector<Row> rows_;
};

}  // namespace flotilla::app
