#include "budget.hpp"

#include <stdexcept>

#include "flotilla/base/error.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/signals/stop_signals.hpp"

namespace flotilla::chat {
namespace {

constexpr RenderingLimits limits;
thread_local Budget* current = nullptr;

void take(std::int64_t& left, std::size_t count, std::int64_t limit, const char* of) {
  signals::refuse_if_stopped();
  left -= static_cast<std::int64_t>(count);
  if (left < 0)
    throw std::invalid_argument{text("a rendering takes at most ", limit, " ", of, "; does the template end? Take the model's own")};
}

}  // namespace

Budget::Budget() : before_{current} { current = this; }
Budget::~Budget() { current = before_; }

void Budget::step() {
  if (current != nullptr) take(current->left_.steps, 1, limits.steps, "steps");
}
void Budget::bytes(std::size_t count) {
  if (current != nullptr) take(current->left_.bytes, count, limits.bytes, "bytes of texts");
}
void Budget::elements(std::size_t count) {
  if (current != nullptr) take(current->left_.elements, count, limits.elements, "elements of lists");
}

}  // namespace flotilla::chat
