#include "app/common/library_model.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"

namespace flotilla::app {

model::Config model_in(const files::Library& library, const std::string& name) {
  for (const auto& model : library.models)
    if (same_word(model.name, name)) return model;
  if (library.models.empty()) return model::built_in(name);
  std::vector<std::string> names = model::built_in_names();
  for (const auto& model : library.models) names.push_back(model.name);
  const auto built_in = std::ranges::find_if(names, [&](const std::string& known) { return same_word(known, name); });
  FLOTILLA_REQUIRE(built_in != names.end(), ErrorKind::bad_input, in_quotes(name), " is neither a model of the library nor a built-in one",
                   suggestion(name, names));
  return model::built_in(name);
}

}  // namespace flotilla::app
