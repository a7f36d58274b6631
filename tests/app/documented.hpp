#pragma once
#include <gtest/gtest.h>

#include <string>

#include "flotilla/files/json.hpp"

/// Pages of docs/formats beside what the program writes.
namespace flotilla::app {

/// Every key of the document stands on the page.
inline void expect_documented(const std::string& page, const files::Json& value) {
  if (value.is_array())
    for (const auto& item : value.items()) expect_documented(page, item);
  if (!value.is_object()) return;
  for (const auto& key : value.keys()) {
    EXPECT_NE(page.find(key), std::string::npos) << key << " is not on the page";
    expect_documented(page, value.at(key));
  }
}

}  // namespace flotilla::app
