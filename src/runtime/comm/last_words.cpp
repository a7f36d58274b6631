#include "flotilla/comm/last_words.hpp"

#include <exception>
#include <new>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_exception.hpp"

namespace flotilla::comm {

LastWords last_words() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return {exit_code(error.kind()), error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::unavailable, "out of memory"};
  } catch (const std::exception& error) {
    return {exit_code(kind_of(error)), in_words(error)};
  } catch (...) {
    return {ExitCode::internal, "an exception of unknown type"};
  }
}

}  // namespace flotilla::comm
