#include "flotilla/chat/template.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "flotilla/signals/stop_signals.hpp"
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
  refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "does the template end?");
  std::string sum = "{% for a in range(99999) %}{{ 1";
  for (int i = 0; i < 30; ++i) sum += " + 1";
  refused(sum + " }}{% endfor %}", "at most 2000000 steps; does the template end?");
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

/// `rounds` times in a loop, of which ns.x is what remains.
std::string repeated(const std::string& set, const std::string& first, int rounds, const std::string& then) {
  return "{% set ns = namespace(x=" + first + ") %}{% for i in range(" + std::to_string(rounds) + ") %}{% set ns.x = " + set +
         " %}{% endfor %}{{ " + then + " }}";
}

TEST(Templates, ValuesNestAsDeepAsIsPrintedSafely) {
  for (const char* set : {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "dict(a=ns.x)", "[{'a': (ns.x,)}]", "[dict(a=ns.x).get]"})
    refused(repeated(set, "[]", 99'000, "ns.x"), "lists and dicts nested deeper than 100");
  EXPECT_EQ(rendered(repeated("[ns.x]", "[]", 99, "ns.x")), std::string(100, '[') + std::string(100, ']'));
  refused("{% set ns = namespace() %}{% set ns.x = ns %}", "a namespace() in");
  refused("{% set ns = namespace() %}{% set ns.x = [ns] %}", "a namespace() in");
  refused("{% set ns = namespace(x=namespace()) %}", "a namespace() in");
}

TEST(Templates, WhatIsSharedCountsWhereverItIsWalked) {
  for (const char* then :
       {"ns.x", "ns.x | tojson", "ns.x | tojson(indent=2)", "ns.x ~ ''", "[ns.x] | join", "[ns.x] | map('string') | list"})
    refused(repeated("[ns.x, ns.x]", "[]", 60, then), "t:1:");  // elements or bytes, whichever comes first
  for (const char* then :
       {"ns.x == ns.x", "[1, ns.x] == [1, ns.x]", "ns.x in [ns.x]", "ns.x is eq(ns.x)", "[ns.x] | select('ne', ns.x) | list"})
    refused(repeated("[ns.x, ns.x]", "[]", 60, then), "a rendering takes at most 4000000 elements of lists");
  refused(repeated("ns.x + ['a' * 16000000]", "[]", 2000, "1"), "a rendering takes at most 268435456 bytes of texts");
  refused(repeated("ns.x + ns.x", "[1]", 60, "1"), "elements of lists");
  refused(repeated("(ns.x * 100000)", "[1]", 3, "1"), "elements of lists");
  refused("{% set t = 'ab' * 4000000 %}{% for i in range(3000) %}{{ 'c' in t }}{% endfor %}", "bytes of texts");
  refused("{% set t = 'ab' * 4000000 %}{% for i in range(3000) %}{{ t == t }}{% endfor %}", "bytes of texts");
  refused("{% set t = 'ab' * 1000000 %}{{ t.strip('ba' * 1000000) }}{{ t.strip('x' * 1000000) }}", "bytes of texts");
  std::string maps = "{{ 'a' | map('map'";
  for (int i = 0; i < 3000; ++i) maps += ", 'map'";
  refused(maps + ") | list }}", "nested deeper than");
  refused(std::string(2 << 20, 'x'), "a template of 2097152 bytes");
}

TEST(Templates, ASignalEndsARendering) {
  const signals::StopSignals stop;
  const std::string endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  std::thread sender{[] { ::kill(::getpid(), SIGTERM); }};
  EXPECT_THROW(rendered(endless), signals::Stopped);
  sender.join();
}

TEST(Templates, ALongConversationIsFarFromTheLimits) {
  Inputs inputs;
  for (int i = 0; i < 1000; ++i)
    inputs.messages.push_back(files::Json::parse(R"({"role": "user", "content": ")" + std::string(1000, 'w') + "\"}", "test"));
  const auto written = Template::parse(
      "{% for m in messages %}{% set c = m.content | trim %}{% if '</think>' in c %}{% set c = c.split('</think>')[-1] %}{% endif %}"
      "<|{{ m.role }}|>{{ c }}{% if messages[loop.index0 - 1].role == 'user' %}<|end|>{% endif %}{% endfor %}",
      "t");
  EXPECT_GT(written.render(inputs).text.size(), 1'000'000u);
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
