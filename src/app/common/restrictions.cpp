#include "app/common/restrictions.hpp"

#include <algorithm>

#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::app {

search::Restrictions read_restrictions(const std::vector<std::string>& items, const options::Setting& option) {
  search::Restrictions restrictions;
  for (const auto& item : items)
    for (std::size_t begin = 0; begin <= item.size();) {
      const auto end = std::min(item.find(',', begin), item.size());
      try {
        search::restrict(restrictions, item.substr(begin, end - begin));
      } catch (const Error& error) {
        refuse(option, item, error.what());
      }
      begin = end + 1;
    }
  return restrictions;
}

}  // namespace flotilla::app
