#pragma once
#include <cstddef>
#include <cstdint>

namespace flotilla::chat {

/// What one rendering may use, whatever a template does: it comes with a model, from people nobody has to trust. A long conversation (a
/// thousand messages, a MiB) uses less than a hundredth of each.
struct RenderingLimits {
  std::int64_t steps = 2'000'000;                ///< statements and expressions
  std::int64_t bytes = std::int64_t{256} << 20;  ///< of texts made, searched and compared: also bounds memory
  std::int64_t elements = 4'000'000;             ///< of lists and dictionaries made, copied, compared and written
};
/// A template; published ones have less than 50 KB.
inline constexpr std::size_t longest_template = 1 << 20;
/// Any one text.
inline constexpr std::size_t longest_text = 16 << 20;
/// Lists and dictionaries in one another; JSON lines nest at most 64 deep.
inline constexpr int deepest_value = 100;

/// Counts what the rendering of this thread uses while it lives. The functions throw std::invalid_argument where a limit is passed, and
/// signals::Stopped where a signal asks the process to stop; without a rendering they count nothing.
class Budget {
 public:
  Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  ~Budget();

  static void step();
  static void bytes(std::size_t count);
  static void elements(std::size_t count);

 private:
  RenderingLimits left_;
  Budget* const before_;
};

}  // namespace flotilla::chat
