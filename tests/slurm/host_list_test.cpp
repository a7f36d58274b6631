#include "flotilla/slurm/host_list.hpp"

#include <gtest/gtest.h>

#include <random>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"

namespace flotilla::slurm {
namespace {

using Names = std::vector<std::string>;

Names expand(const std::string& list) { return expand_host_list(list, "LIST"); }

TEST(HostList, Expands) {
  EXPECT_EQ(expand("login"), Names{"login"});
  EXPECT_EQ(expand("n[1-3]"), (Names{"n1", "n2", "n3"}));
  EXPECT_EQ(expand("n[1-3,5],login"), (Names{"n1", "n2", "n3", "n5", "login"}));
  EXPECT_EQ(expand("a,b[2],c-d.e_f"), (Names{"a", "b2", "c-d.e_f"}));
}

TEST(HostList, KeepsLeadingZeros) {
  EXPECT_EQ(expand("n[07-11]"), (Names{"n07", "n08", "n09", "n10", "n11"}));
  EXPECT_EQ(expand("n[098-101]"), (Names{"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(expand("n[0-2,00-01]"), (Names{"n0", "n1", "n2", "n00", "n01"}));
}

TEST(HostList, SeveralBracketsAndWhatFollows) {
  EXPECT_EQ(expand("r[1-2]n[3-4]-ib0"), (Names{"r1n3-ib0", "r1n4-ib0", "r2n3-ib0", "r2n4-ib0"}));
  EXPECT_EQ(expand("[1-2]"), (Names{"1", "2"}));
  EXPECT_EQ(expand("gpu-a[1].site.example"), Names{"gpu-a1.site.example"});
}

TEST(HostList, IsWrittenAsItIsRead) {
  EXPECT_EQ(host_list_of({"n1", "n2", "n3", "n5", "login"}), "n[1-3,5],login");
  EXPECT_EQ(host_list_of({"n08", "n09", "n10", "n9", "n10"}), "n[08-10,9-10]");
  EXPECT_EQ(host_list_of({"a7"}), "a7");
  EXPECT_EQ(host_list_of({}), "");
  for (const std::string list : {"n[1-3,07,009-011]", "r1n[3-4],r2n[3-4]", "login,gpu-a[1-2],7,x", "n[99-101]", "a12345678901234567890"})
    EXPECT_EQ(expand(host_list_of(expand(list))), expand(list)) << list;
}

TEST(HostList, RefusesInOneLineThatNamesTheSource) {
  for (const std::string bad : {"",
                                ",",
                                "a,",
                                ",a",
                                "a,,b",
                                "n[",
                                "n[1",
                                "n[1-2",
                                "n]",
                                "n[]",
                                "n[1,]",
                                "n[-1]",
                                "n[1-]",
                                "n[2-1]",
                                "n[a]",
                                "n[1-b]",
                                "n[1 2]",
                                "a b",
                                "a\nb",
                                "$(x)",
                                "n[1-9999999]",
                                "a;b",
                                "n[1-1000]m[1-1001]",
                                "n[999999999999999999999]",
                                "n[18446744073709551610-18446744073709551615]",
                                "(null)",
                                "n[[1]]",
                                "n[1]]",
                                "a'b"}) {
    SCOPED_TRACE(bad);
    const std::string message = tests::refusal([&] { expand(bad); });
    EXPECT_EQ(message.rfind("LIST is ", 0), 0u) << message;
  }
  EXPECT_THROW(expand(std::string(5000, 'a')), Error);
  EXPECT_EQ(expand("n[1-1000]m[1-1000]").size(), 1'000'000u);
}

TEST(HostList, AnyTextIsExpandedOrRefused) {
  std::mt19937 random{17};
  const std::string letters = "n[]-,019 \n$";
  int good = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string list;
    for (auto length = random() % 9; length > 0; --length) list += letters[random() % letters.size()];
    try {
      const auto names = expand(list);
      ++good;
      EXPECT_FALSE(names.empty());
      for (const auto& name : names) EXPECT_EQ(name.find_first_of("[], \n$"), std::string::npos) << list;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    }
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace flotilla::slurm
