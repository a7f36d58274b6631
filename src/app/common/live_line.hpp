#pragma once
#include <string>

namespace flotilla::app {

/// One line on standard error that says what is being done; on a terminal only. Gone when it is destroyed.
class LiveLine {
 public:
  LiveLine();
  ~LiveLine() { show(""); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  void show(const std::string& what);

 private:
  bool terminal_;
  bool shown_ = false;
};

}  // namespace flotilla::app
