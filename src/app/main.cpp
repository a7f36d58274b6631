#include <string>
#include <vector>

#include "app/command_table.hpp"
#include "app/common/bounded_spinning.hpp"
#include "app/common/commands.hpp"
#include "app/common/versions.hpp"
#include "flotilla/signals/stop_signals.hpp"

int main(int argc, char** argv) {
  flotilla::signals::ignore_file_size_limits();  // a full disk is an error like others, and so is ulimit -f
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto commands = flotilla::app::command_table();
  if (flotilla::app::computes(commands, arguments)) flotilla::app::bound_spinning(argv);
  return flotilla::app::run_command(commands, arguments, flotilla::app::versions);
}
