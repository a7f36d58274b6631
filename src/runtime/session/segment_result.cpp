#include "flotilla/session/segment_result.hpp"

#include <sstream>

#include "flotilla/base/error.hpp"

namespace flotilla::session {

std::string to_text(const SegmentResult& segment_result) {
  const auto scale = segment_result.loss_scale.value_or(checkpoint::LossScale{0, 0});
  return text(static_cast<int>(segment_result.code), ' ', segment_result.step, ' ', segment_result.updates, ' ', scale.value, ' ',
              scale.good_steps, ' ', segment_result.next ? 1 : 0, ' ', segment_result.temporary ? 1 : 0, ' ', segment_result.reason);
}

SegmentResult segment_result_from_text(const std::string& words) {
  std::istringstream in{words};
  int code = 0, goes_on = 0, temporary = 0;
  SegmentResult segment_result;
  checkpoint::LossScale scale;
  in >> code >> segment_result.step >> segment_result.updates >> scale.value >> scale.good_steps >> goes_on >> temporary;
  FLOTILLA_ASSERT(in && in.get() == ' ', "not the end of a segment: '", words, "'");
  segment_result.code = static_cast<ExitCode>(code);
  if (scale.value > 0) segment_result.loss_scale = scale;
  segment_result.next = goes_on != 0;
  segment_result.temporary = temporary != 0;
  std::getline(in, segment_result.reason, '\0');
  return segment_result;
}

}  // namespace flotilla::session
