#include "flotilla/base/units.hpp"

#include <gtest/gtest.h>

#include <new>
#include <system_error>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_exception.hpp"
#include "flotilla/base/precision.hpp"
#include "support/refusal.hpp"

namespace flotilla {
namespace {

template <class Parse>
std::string refusal_of(Parse parse, std::string_view input) {
  return tests::refusal([&] { parse(input); });
}

TEST(Units, ParseWithTheirUnit) {
  EXPECT_EQ(parse_bytes("64MiB"), Bytes{64 << 20});
  EXPECT_EQ(parse_bytes("1.5GB"), Bytes{1500000000});
  EXPECT_EQ(parse_bytes("0B"), Bytes{0});
  EXPECT_EQ(parse_bytes("7 kB"), Bytes{7000});
  EXPECT_DOUBLE_EQ(parse_seconds("90s").value, 90);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5h").value, 5400);
  EXPECT_DOUBLE_EQ(parse_seconds("250ms").value, 0.25);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("10Gbit/s").value, 1.25e9);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("800MiB/s").value, 800.0 * (1 << 20));
  EXPECT_EQ(parse_us_dollars("1.2usd"), UsDollars{1.2});
  EXPECT_EQ(parse_us_dollars("300USD"), UsDollars{300});
  EXPECT_EQ(parse_share("7%"), Share{0.07});
  EXPECT_EQ(parse_share("0.5%"), Share{0.005});
}

TEST(Units, ABareNumberIsRefusedWithTheLineToWrite) {
  EXPECT_NE(refusal_of(parse_bytes, "64").find("64B"), std::string::npos);
  EXPECT_NE(refusal_of(parse_seconds, "90").find("90s"), std::string::npos);
  EXPECT_NE(refusal_of(parse_bytes_per_second, "10").find("10B/s"), std::string::npos);
  EXPECT_NE(refusal_of(parse_us_dollars, "1.2").find("1.2usd"), std::string::npos);
  EXPECT_NE(refusal_of(parse_share, "1").find("1%"), std::string::npos);
}

TEST(Units, NonsenseIsRefused) {
  for (const auto* input : {"", " ", "MiB", "-1MiB", "nanMiB", "infs", "1e400B", "12parsecs", "1MiB extra", "0x10B", "99999999999TiB"}) {
    EXPECT_NE(refusal_of(parse_bytes, input), "") << input;
    EXPECT_NE(refusal_of(parse_seconds, input), "") << input;
    EXPECT_NE(refusal_of(parse_us_dollars, input), "") << input;
    EXPECT_NE(refusal_of(parse_share, input), "") << input;
  }
}

TEST(Units, PrintAsPeopleWriteThem) {
  EXPECT_EQ(to_string(Bytes{512}), "512 B");
  EXPECT_EQ(to_string(Bytes{3 << 19}), "1.50 MiB");
  EXPECT_EQ(to_string(Bytes{-(std::int64_t{1} << 31)}), "-2.00 GiB");
  EXPECT_EQ(to_string(Seconds{0.25}), "250 ms");
  EXPECT_EQ(to_string(Seconds{3.5e-6}), "3.50 us");
  EXPECT_EQ(to_string(Seconds{7200}), "2.00 h");
  EXPECT_EQ(to_string(BytesPerSecond{1.25e9}), "1.25 GB/s");
}

TEST(Units, ArithmeticKeepsDimensions) {
  EXPECT_DOUBLE_EQ((Bytes{1000} / BytesPerSecond{500}).value, 2);
  EXPECT_EQ(align_up(Bytes{65}, 64), Bytes{128});
  EXPECT_EQ(align_up(Bytes{64}, 64), Bytes{64});
  EXPECT_DOUBLE_EQ(Seconds{3} / Seconds{2}, 1.5);
}

TEST(Precision, ParsesItsNamesOnly) {
  EXPECT_EQ(parse_precision("bf16"), Precision::bf16);
  EXPECT_EQ(element_size(Precision::fp32), Bytes{4});
  EXPECT_NE(refusal_of(parse_precision, "fp8"), "");
}

TEST(ErrorKind, HasTheTablesExitCode) {
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::usage)), 64);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::bad_input)), 65);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::no_input)), 66);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::unavailable)), 69);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::temporary)), 69);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::internal)), 70);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::no_plan)), 76);
  EXPECT_EQ(static_cast<int>(exit_code(ErrorKind::communication)), 77);
}

TEST(ErrorKind, WhatTheSystemRefusesIsUnavailable) {
  const auto refused = [](std::errc code) { return std::system_error{std::make_error_code(code)}; };
  EXPECT_EQ(kind_of(refused(std::errc::resource_unavailable_try_again)), ErrorKind::unavailable) << "std::thread";
  EXPECT_EQ(kind_of(std::bad_alloc{}), ErrorKind::unavailable);
  EXPECT_EQ(kind_of(refused(std::errc::invalid_argument)), ErrorKind::internal);
  EXPECT_EQ(kind_of(std::logic_error{"ours"}), ErrorKind::internal);
  EXPECT_EQ(kind_of(Error{ErrorKind::no_plan, "none"}), ErrorKind::no_plan);
}

}  // namespace
}  // namespace flotilla
