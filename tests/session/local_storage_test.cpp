#include "flotilla/session/local_storage.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"

namespace flotilla::session {
namespace {

NodeNames names(const std::string& job = "4711") {
  return {job, "n7", [](const std::string& name) -> std::optional<std::string> {
            if (name == "TMPDIR") return "/scratch/4711";
            if (name == "EMPTY") return "";
            return std::nullopt;
          }};
}

TEST(LocalFolder, ReplacesVariablesAndCodes) {
  EXPECT_EQ(local_folder("/local/run", names()), "/local/run");
  EXPECT_EQ(local_folder("$TMPDIR", names()), "/scratch/4711");
  EXPECT_EQ(local_folder("${TMPDIR}x/%j/%N/50%%", names()), "/scratch/4711x/4711/n7/50%");
  EXPECT_EQ(local_folder("$TMPDIR/a", names()), "/scratch/4711/a");
}

TEST(LocalFolder, WhatCannotBeReplacedIsRefused) {
  const auto refused = [](const std::string& pattern, const std::string& word, const std::string& job = "4711") {
    const auto message = tests::refusal(ErrorKind::bad_input, [&] { local_folder(pattern, names(job)); });
    EXPECT_NE(message.find(word), std::string::npos) << message;
    EXPECT_NE(message.find("checkpoint.local"), std::string::npos) << message;
  };
  refused("$SCRATCH/a", "the environment on n7 has no SCRATCH");
  refused("$EMPTY/a", "has no EMPTY");
  refused("/a/%j", "no batch job", "");
  refused("/a/%x", "expected %j (job ID), %N (host) or %%");
  refused("/a/%", "expected %j");
  refused("/a/${TMPDIR", "$NAME or ${NAME}");
  refused("/a/$", "$NAME or ${NAME}");
  refused("here/%j", "begins with /");
}

}  // namespace
}  // namespace flotilla::session
