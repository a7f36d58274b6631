#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "flotilla/page/plots.hpp"

namespace flotilla::page {

struct Tick {
  double value = 0;
  std::string label;
};

/// An axis that knows its values' range: where a value stands along it, where its ticks are, and how a value is written.
class Scale {
 public:
  /// `values` that are not finite, or not positive on a logarithmic axis, do not count. Without any the range is 0 to 1.
  Scale(const PlotAxis&, std::span<const double> values);

  /// Both show the range of both.
  static void join(Scale& a, Scale& b);
  /// Ends at ticks: for values that would otherwise stand on the frame.
  void widen_to_ticks(int most);

  bool shows(double value) const;
  /// 0 at the low end, 1 at the high end.
  double place(double value) const;
  /// At most about `most` of them, inside the range.
  std::vector<Tick> ticks(int most) const;
  /// "loss", "iteration time, ms".
  std::string title() const;
  /// "12.5 ms", "1.2 GiB", "$0.12".
  std::string in_words(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  double unit() const { return unit_; }  ///< that ticks and title are in
  bool logarithmic() const { return logarithmic_; }

 private:
  std::string tick_label(double value) const;
  std::vector<Tick> powers_of_two(int most) const;
  double step(int most) const;

  PlotAxis axis_;
  bool logarithmic_;
  double low_ = 0, high_ = 1;
  double unit_ = 1;         ///< that ticks are counted in
  std::string unit_name_;   ///< "ms", "GiB"; empty: none
  bool own_units_ = false;  ///< each tick has its own: over many powers of ten none suits all
};

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
double nice_step(double least);

}  // namespace flotilla::page
