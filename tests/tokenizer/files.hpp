#pragma once
#include <string>

/// Small tokenizer.json files, written by hand.
namespace flotilla::tokenizer::test {

/// A character-level model over a, b, c with merges ab, abc, bc, in that order of rank.
inline std::string model(const std::string& more = "", const std::string& vocabulary = "") {
  return R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "bc": 5)" + vocabulary +
         R"(}, "merges": ["a b", ["ab", "c"], "b c"])" + more + "}";
}

inline std::string file(const std::string& before, const std::string& model) {
  return "{" + before + (before.empty() ? "" : ", ") + model + "}";
}

inline std::string added(const std::string& content, int id, const std::string& flags = "") {
  const auto flag = [&](const std::string& name) { return ", \"" + name + "\": " + (flags.find(name) != flags.npos ? "true" : "false"); };
  return R"({"id": )" + std::to_string(id) + R"(, "content": ")" + content + "\"" + flag("single_word") + flag("lstrip") + flag("rstrip") +
         flag("normalized") + flag("special") + "}";
}

}  // namespace flotilla::tokenizer::test
