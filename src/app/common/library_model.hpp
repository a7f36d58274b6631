#pragma once
#include <string>

#include "flotilla/files/profile_file.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::app {

/// The model of that name in a library, else built in; case does not matter. Throws Error{bad_input} naming the nearest.
model::Config model_in(const files::Library&, const std::string& name);

}  // namespace flotilla::app
