#include "flotilla/chat/chat_format.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::chat {
namespace {

using tests::expect_refused;

constexpr const char* chatml =
    "{% for m in messages %}<|{{ m.role }}|>\\n{{ m.content }}</s>\\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\\n{% endif %}";
constexpr const char* talk =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "so"}, {"role": "assistant", "content": "no"}]})";

class Formats : public ::testing::Test {
 protected:
  std::string config(const std::string& members) const { return folder_.write("tokenizer_config.json", "{" + members + "}"); }
  /// What the assistant says, each in brackets.
  static std::string said(const ChatFormat& format, const std::string& line) {
    const auto rendered = format.apply(files::Json::parse(line, "some.jsonl:3"));
    std::string all;
    for (const auto& span : rendered.generated) all += "[" + rendered.text.substr(span.first, span.last - span.first) + "]";
    return all;
  }
  const tests::TemporaryFolder folder_;
};

TEST_F(Formats, OfTokenizerConfigs) {
  EXPECT_EQ(said(ChatFormat::read(config(std::string{R"("chat_template": ")"} + chatml + "\"")), talk), "[yes</s>\n][no</s>\n]");
  const auto named =
      R"("chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}"}],
    "bos_token": {"content": "<s>", "lstrip": false}, "pad_token": null)";
  const auto format = ChatFormat::read(config(named));
  EXPECT_EQ(format.apply(files::Json::parse(R"({"messages": [{"role": "user", "content": "x"}]})", "t")).text, "<s>x");
  EXPECT_TRUE(ChatFormat::beside(folder_ / "tokenizer.json").has_value());
}

TEST_F(Formats, OfAFileBesideTheTokenizer) {
  EXPECT_FALSE(ChatFormat::beside(folder_ / "tokenizer.json").has_value());
  config(R"("eos_token": "<e>")");
  EXPECT_FALSE(ChatFormat::beside(folder_ / "tokenizer.json").has_value());
  folder_.write("chat_template.jinja", "{{ messages[0].content }}{{ eos_token }}");
  const auto format = ChatFormat::beside(folder_ / "tokenizer.json");
  ASSERT_TRUE(format.has_value());
  EXPECT_EQ(format->apply(files::Json::parse(R"({"messages": [{"role": "user", "content": "x"}]})", "t")).text, "x<e>");
}

/// A template writes what comes before in another way once more follows: nobody can say where the assistant's part is, but {% generation
/// %}.
TEST_F(Formats, BeginningsThatDoNotGoOn) {
  const auto changing = folder_.write("a.jinja", "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  expect_refused([&] { said(ChatFormat::read(changing), talk); }, "some.jsonl:3", "first 2 messages otherwise", "{% generation %}");
  const auto marked = folder_.write("b.jinja",
                                    "{{ messages | length }}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ "
                                    "m.content }}{% endgeneration %}{% endif %}{% endfor %}");
  EXPECT_EQ(said(ChatFormat::read(marked), talk), "[yes][no]");
}

TEST_F(Formats, ToolsAndMore) {
  const auto format = ChatFormat::read(folder_.write("a.jinja", "{{ tools[0].name }}{{ deep }}{{ documents is none }}"));
  const auto line = R"({"messages": [{"role": "user"}], "tools": [{"name": "t"}], "chat_template_kwargs": {"deep": 3}})";
  EXPECT_EQ(format.apply(files::Json::parse(line, "t")).text, "t3True");
}

TEST_F(Formats, HostileOnesAreNamed) {
  const auto format = ChatFormat::read(folder_.write("a.jinja", "{{ raise_exception('never') }}"));
  const auto apply = [&](const std::string& line) { return [&format, line] { format.apply(files::Json::parse(line, "some.jsonl:3")); }; };
  expect_refused(apply(R"({"messages": []})"), "some.jsonl:3: /messages: expected at least one message");
  expect_refused(apply(R"({"messages": [{"content": "x"}]})"), "some.jsonl:3: /messages/0", "role");
  expect_refused(apply(R"({"messages": "x"})"), "some.jsonl:3: /messages");
  expect_refused(apply(R"({"messages": [{"role": "user"}]})"), "some.jsonl:3", "a.jinja:1:1", "never");
  expect_refused([&] { ChatFormat::read(config(R"("chat_template": 5)")); }, "tokenizer_config.json: /chat_template");
  expect_refused([&] { ChatFormat::read(config(R"("chat_template": [{"name": "x", "template": ""}])")); }, "one named default");
  expect_refused([&] { ChatFormat::read(config(R"("a": 1)")); }, "tokenizer_config.json", "chat_template");
  expect_refused([&] { ChatFormat::read(config(R"("chat_template": "", "bos_token": {"content": 5})")); }, "/bos_token");
}

}  // namespace
}  // namespace flotilla::chat
