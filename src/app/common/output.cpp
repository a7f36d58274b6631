#include <iostream>

#include "app/common/job.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::app {

void write_output(const Job::Output& output, const std::string& text) {
  if (!output.file.empty()) return files::write_text(output.file, text);
  std::cout << text << std::flush;
  FLOTILLA_REQUIRE(std::cout, ErrorKind::unavailable, "standard output cannot be written; is the disk full?");
}

}  // namespace flotilla::app
