#include "flotilla/topology/run_delay.hpp"

#include <filesystem>
#include <fstream>

namespace flotilla::topology {

Seconds run_delay() {
  namespace fs = std::filesystem;
  std::error_code failed;
  double nanoseconds = 0;
  for (fs::directory_iterator thread{"/proc/self/task", failed}, end; !failed && thread != end; thread.increment(failed)) {
    std::ifstream in{thread->path() / "schedstat"};
    double ran = 0, waited = 0;
    if (in >> ran >> waited) nanoseconds += waited;  // a thread may have ended meanwhile
  }
  return {nanoseconds * 1e-9};
}

}  // namespace flotilla::topology
