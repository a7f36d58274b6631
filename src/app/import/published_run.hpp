#pragma once
#include <filesystem>
#include <string>

#include "app/import/import.hpp"

namespace flotilla::app {

/// A run of a file of published runs as a folder, -o: plan.json, and cluster.json, a profile library with the run's devices, links and
/// model. Returned: where they are, the runtime, and the forecast by the runtime as the run sets it up beside what was measured. Throws
/// Error{usage} where the folder or the run is not named, Error{bad_input} where the file has no such run, Error{unavailable} with the
/// reason where the run cannot be expressed.
Imported a_published_run(const std::string& path, const ImportOptions&);

}  // namespace flotilla::app
