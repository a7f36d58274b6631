#include <toml++/toml.h>

#include <boost/version.hpp>

#include "flotilla/base/text.hpp"
#include "flotilla/options/table.hpp"

namespace flotilla::options {

std::string library_version() {
  return text("Boost ", BOOST_VERSION / 100000, ".", BOOST_VERSION / 100 % 1000, ".", BOOST_VERSION % 100, ", toml++ ", TOML_LIB_MAJOR, ".",
              TOML_LIB_MINOR, ".", TOML_LIB_PATCH);
}

}  // namespace flotilla::options
