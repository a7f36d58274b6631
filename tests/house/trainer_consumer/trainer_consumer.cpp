// Another C++ program that links everything that trains.
#include <cstdio>

#include "flotilla/mpi/session.hpp"
#include "flotilla/session/same_run.hpp"

int main() {
  flotilla::session::RunConfig config;
  config.architecture = flotilla::model::built_in("gpt2-tiny");
  std::printf("%s\n%s", flotilla::mpi::library_version().c_str(), flotilla::session::training_identity(config, 0).c_str());
}
