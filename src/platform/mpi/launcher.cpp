// Whether the launcher's idea of the job and MPI's are the same: Open MPI under plain srun makes N worlds of one rank and says nothing.
#include <charconv>
#include <cstring>

#include "flotilla/base/text.hpp"
#include "flotilla/mpi/session.hpp"

namespace flotilla::mpi {
namespace {

/// The positive number in a variable, or 0.
int number(const Environment& environment, const char* name) {
  const char* value = environment(name);
  if (value == nullptr) return 0;
  int result = 0;
  const char* end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, result);
  return error == std::errc{} && stop == end && result > 0 ? result : 0;
}

/// The innermost launcher comes first: mpirun inside an allocation still shows the allocation's variables.
const char* first_set(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
    if (number(environment, name) > 0) return name;
  return nullptr;
}

}  // namespace

int launched_processes(const Environment& environment) {
  const char* name = first_set(environment);
  return name == nullptr ? 1 : number(environment, name);
}

std::string why_not_one_world(int size, const Environment& environment) {
  const int launched = launched_processes(environment);
  if (size > 1 || launched <= 1) return {};
  const char* source = first_set(environment);
  if (std::strncmp(source, "SLURM", 5) == 0)
    return text("Slurm has ", launched, " tasks here (", source, "), but MPI sees one process alone; start it with: srun --mpi=pmix -n ",
                launched, " PROGRAM (or -n 1 for a single rank)");
  return text("the launcher started ", launched, " processes (", source,
              "), but MPI sees one process alone; start it with the mpirun of the MPI library it is linked with: mpirun -n ", launched,
              " PROGRAM");
}

}  // namespace flotilla::mpi
