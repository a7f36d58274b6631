#include "flotilla/chat/template.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "support/refusal.hpp"

// What templates write is compared with jinja2 (compare_templates.py); here is what is refused, where, and what never ends.
namespace flotilla::chat {
namespace {

using tests::expect_refused;

std::string rendered(const std::string& source) {
  Inputs inputs;
  inputs.messages = files::Json::parse(R"([{"role": "user", "content": "hi"}])", "test").items();
  return Template::parse(source, "t").render(inputs).text;
}

void refused(const std::string& source, const std::string& words) {
  expect_refused([&] { rendered(source); }, words);
}

TEST(Templates, WhatIsNotSupportedIsNamedWithItsPlace) {
  refused("a\n{% include 'x' %}", "t:2:4: the statement 'include' is not supported");
  refused("{% raw %}{% endraw %}", "t:1:4: the statement 'raw' is not supported");
  refused("{% nosuch %}", "t:1:4: unknown statement 'nosuch'");
  refused("ä{{ messages | nosuch }}", "t:1:16: the filter 'nosuch' is not supported");
  refused("{{ 1 is nosuch }}", "t:1:9: the test 'nosuch' is not supported");
  refused("{{ 'x'.zfill(3) }}", "t:1:7: the method 'zfill' of str is not supported");
  refused("{{ messages.append(1) }}", "the method 'append' of list is not supported");
  refused("{{ f(*messages) }}", "t:1:6: arguments with * are not supported");
  refused("{{ 0x10 }}", "t:1:4: a number with letters or underscores is not supported");
  refused("{{ '\\N{BULLET}' }}", "not supported");
  refused("{% for x in y recursive %}{% endfor %}", "recursive loops are not supported");
  refused("{{ 'ä' | upper }}", "letters beyond ASCII");
  refused("{{ {1: 2} }}", "a key of type int is not supported");
  refused("{{ strftime_now('%Y') }}", "t:1:16: 'strftime_now' is undefined and cannot be called");
  refused("{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}", "in a macro or a set block is not supported");
}

TEST(Templates, WhatIsWrongIsNamedWithItsPlace) {
  refused("{% if true %}", "t:1:14: the template ends here; expected {% endif %}");
  refused("{{ 1 ", "t:1:1: a tag that does not end: expected }}");
  refused("{# x", "t:1:1: a comment that does not end");
  refused("{{ 'x }}", "t:1:4: a string that does not end");
  refused("{{ 1 2 }}", "t:1:6: expected }}, found '2'");
  refused("{{ $ }}", "t:1:4: unexpected character '$'");
  refused("{% break %}", "break outside of a loop");
  refused("{{ 1 + 'a' }}", "int + str is not defined");
  refused("{{ 1 // 0 }}", "division by zero");
  refused("{{ nothing.more }}", "t:1:11: 'nothing' is undefined and has no member 'more'");
  refused("line\n  {{ raise_exception('roles must alternate') }}", "t:2:3: the template refuses these messages: roles must alternate");
  refused(std::string{"\xff"}, "t:1:1: a template that is not UTF-8");
}

TEST(Templates, NothingGrowsWithoutEnd) {
  refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested deeper than");
  refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps; does the template end?");
  refused("{{ range(10 ** 9) }}", "range(): more than");
  refused("{{ 'a' * 10 ** 12 }}", "too long");
  refused("{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "too long");
  refused("{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s | replace('a', 'aa') %}{% endfor %}",
          "too long");
  refused("{{ 9223372036854775807 + 1 }}", "beyond 64 bits");
  refused("{{ 99999999999999999999 }}", "beyond 64 bits");
  refused("{{ 10 ** 400 }}", "beyond 64 bits");
  refused("{{ " + std::string(4'000, '(') + "1" + std::string(4'000, ')') + " }}", "nested deeper than");
  refused("{{ " + std::string(9'000, '-') + "1 }}", "nested deeper than");
  std::string blocks;
  for (int i = 0; i < 100'000; ++i) blocks += "{% if 1 %}";
  refused(blocks, "nested deeper than");
  std::string chain = "{{ 1";
  for (int i = 0; i < 100'000; ++i) chain += " + 1";
  EXPECT_NE(tests::refusal([&] { rendered(chain + " }}"); }).find("longer than"), std::string::npos);
}

TEST(Templates, ManyThreadsMayRenderOne) {
  const auto shared = Template::parse(
      "{% set ns = namespace(n=0) %}{% for i in range(1000) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{{ messages[0].content }}",
      "t");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (auto& text : texts)
    threads.emplace_back([&] {
      Inputs inputs;
      inputs.messages = files::Json::parse(R"([{"content": "x"}])", "test").items();
      for (int i = 0; i < 20; ++i) text = shared.render(inputs).text;
    });
  for (auto& thread : threads) thread.join();
  for (const auto& text : texts) EXPECT_EQ(text, "499500x");
}

TEST(Templates, WhatIsGeneratedIsMarked) {
  Inputs inputs;
  inputs.messages = files::Json::parse(R"([{"c": "ä"}, {"c": "b"}])", "test").items();
  const auto shown =
      Template::parse("{% for m in messages %}<{% generation %}{{ m.c }}{% endgeneration %}>{% endfor %}", "t").render(inputs);
  EXPECT_EQ(shown.text, "<ä><b>");
  EXPECT_EQ(shown.generated, (std::vector<TextSpan>{{1, 3}, {5, 6}}));
}

}  // namespace
}  // namespace flotilla::chat
