#include "flotilla/files/json.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "support/refusal.hpp"

namespace flotilla::files::json_test {
namespace {

using tests::expect_refused;

Json parse(const std::string& text) { return Json::parse(text, "in.json"); }
void refused(const std::string& text, std::string_view part, std::string_view other = "in.json") {
  expect_refused([&] { parse(text); }, part, other);
}

TEST(Json, ReadsEveryKindOfValue) {
  const Json json = parse(R"({"a": 1, "b": [true, null, "x\u00e9\n", -2.5], "c": {"d/e": 9223372036854775807}})");
  EXPECT_EQ(json.keys(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(json.get_int("a"), 1);
  EXPECT_EQ(json.get_double("a"), 1.0);
  const auto items = json.at("b").items();
  EXPECT_TRUE(items[0].as_bool());
  EXPECT_TRUE(items[1].is_null());
  EXPECT_EQ(items[2].as_string(), "x\xc3\xa9\n");
  EXPECT_EQ(items[3].as_double(), -2.5);
  EXPECT_EQ(items[3].pointer(), "/b/3");
  EXPECT_EQ(json.at("c").get_int64("d/e"), 9223372036854775807);
  EXPECT_EQ(json.at("c").at("d/e").pointer(), "/c/d~1e");
  EXPECT_EQ(json.size(), 3u);
  EXPECT_FALSE(json.has("z"));
}

TEST(Json, APlaceOutlivesItsDocument) {
  const Json place = parse(R"({"a": {"b": "c"}})").at("a");
  EXPECT_EQ(place.get_string("b"), "c");
}

TEST(Json, IntegersMayBeWrittenWithAPointOrAnExponent) {
  EXPECT_EQ(parse("[3.0]").items()[0].as_int(), 3);
  EXPECT_EQ(parse("[64e9]").items()[0].as_int64(), 64'000'000'000);
}

TEST(Json, RefusesWrongTypesByPlace) {
  const Json json = parse(R"({"a": {"s": "text", "f": 1.5, "big": 4294967296, "huge": 99999999999999999999, "o": {}, "one": 1}})").at("a");
  expect_refused([&] { json.get_int("s"); }, "in.json: /a/s: ", "integer", "'text'");
  expect_refused([&] { json.get_int("f"); }, "/a/f", "integer", "1.5");
  expect_refused([&] { json.get_int("big"); }, "/a/big", "2147483647");
  expect_refused([&] { json.get_int64("huge"); }, "/a/huge", "integer");
  expect_refused([&] { json.get_double("o"); }, "/a/o", "number", "an object");
  expect_refused([&] { json.get_string("f"); }, "/a/f", "string");
  expect_refused([&] { json.get_bool("f"); }, "/a/f", "true or false");
  expect_refused([&] { json.at("s").items(); }, "/a/s", "array");
  expect_refused([&] { json.at("s").at("x"); }, "/a/s", "object");
  expect_refused([&] { json.at("none"); }, "/a: ", "'none' is missing");
  expect_refused([&] { json.get_double("f", 2); }, "/a/f: expected at least 2, got 1.5");
  expect_refused([&] { json.at("f").as_double(0, 1); }, "/a/f: expected at most 1, got 1.5");
  expect_refused([&] { json.at("one").as_int(2, 3); }, "/a/one: expected at least 2, got 1");
  expect_refused([&] { json.at("one").as_int(-3, 0); }, "/a/one: expected at most 0, got 1");
}

TEST(Json, RefusesUnknownKeysWithTheNearest) {
  const Json json = parse(R"([{"sequnces": 1}])").items()[0];
  expect_refused([&] { json.expect_keys({"quanta", "sequences"}); }, "in.json: /0: unknown key 'sequnces'; did you mean 'sequences'?");
  expect_refused([&] { json.expect_keys({"alpha", "omega"}); }, "expected one of alpha, omega");
}

TEST(Json, SyntaxErrorsHaveLineAndColumn) {
  refused("{\n  \"a\": 1,\n  \"b\": nope\n}", "in.json:3:9: not JSON: ");
  refused("", "in.json:1:1");
  refused("[1, 2", "in.json:1:6");
  refused("[1] x", "in.json:1:5");
  refused("\"\xff\"", "UTF-8");
  refused("[1e999]", "1e999");
  refused("[NaN]", "not JSON");
  refused(std::string("[\0]", 3), "not JSON");
}

TEST(Json, RefusesWhatIsTooDeepTooManyOrTwice) {
  refused(std::string(65, '[') + std::string(65, ']'), "deeper than 64");
  refused(std::string(1 << 20, '['), "deeper than 64");
  EXPECT_NO_THROW(parse(std::string(64, '[') + std::string(64, ']')));
  std::string many = "[0";
  for (int i = 0; i < 2'000'000; ++i) many += ",0";
  refused(many + "]", "more than 2000000 values");
  refused(R"({"x": [1, {"k": 1, "k": 2}]})", "/x/1: key 'k' occurs twice");
}

TEST(Json, PrintsForPeopleAndOnOneLine) {
  const Json json = parse(R"({"a":[1,2.5,"x"],"b":{"c":[],"d":[{"e":1},{"e":2}]}})");
  EXPECT_EQ(json.one_line(), R"({"a": [1, 2.5, "x"], "b": {"c": [], "d": [{"e": 1}, {"e": 2}]}})");
  EXPECT_EQ(json.pretty(), R"({
  "a": [1, 2.5, "x"],
  "b": {
    "c": [],
    "d": [
      {"e": 1},
      {"e": 2}
    ]
  }
}
)");
  EXPECT_EQ(parse(json.pretty()).one_line(), json.one_line());
}

TEST(Json, DoublesComeBackBitByBit) {
  std::mt19937_64 random{1};
  for (int i = 0; i < 20000; ++i) {
    const double value = i == 0 ? -0.0 : i == 1 ? 5e-324 : i == 2 ? 1.7976931348623157e308 : std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const Json json = parse(json_array(std::vector<double>{value}));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(json.items()[0].as_double()), std::bit_cast<std::uint64_t>(value)) << value;
  }
}

TEST(JsonLine, KeepsOrderAndEscapes) {
  JsonLine line;
  line.add("step", 3).add("loss", 0.1).add("ok", true).add("who", "a\"b\n").add("n", std::size_t{7}).add_null("none");
  line.add("bad", std::nan("")).add("worse", -HUGE_VAL).add("big", std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(line.text(), R"({"step": 3, "loss": 0.1, "ok": true, "who": "a\"b\n", "n": 7, "none": null, "bad": null, "worse": null, )"
                         R"("big": -9223372036854775808})");
  EXPECT_EQ(parse(line.text()).get_string("who"), "a\"b\n");
  EXPECT_EQ(JsonLine{}.text(), "{}");
}

TEST(JsonLine, EmbedsJsonOnOneLine) {
  JsonLine line;
  line.add_json("plan", "{\n  \"x\": [1,\n 2]\n}\n");
  EXPECT_EQ(line.text(), R"({"plan": {"x": [1, 2]}})");
  EXPECT_THROW(line.add_json("plan", "{"), Error);
}

TEST(JsonLine, BytesThatAreNotUtf8StillMakeJson) {
  JsonLine line;
  line.add("host", std::string{"a\xff\xfe"} + "b");
  EXPECT_EQ(parse(line.text()).get_string("host"),
            "a\xef\xbf\xbd\xef\xbf\xbd"
            "b");
}

}  // namespace
}  // namespace flotilla::files::json_test
