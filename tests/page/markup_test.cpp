#include "flotilla/page/markup.hpp"

#include "flotilla/page/document.hpp"
#include "support/well_formed.hpp"

namespace flotilla::page {
namespace {

const std::string hostile = "</title><script>alert('1')</script>&amp;\" onload=\"x\x1b[31m\xff\xe2\x80\xae<!--";

TEST(Markup, TextOfOthersIsText) {
  EXPECT_EQ(words("a < b & \"c\" 'd' >").text(), "a &lt; b &amp; &quot;c&quot; &#39;d&#39; &gt;");
  EXPECT_EQ(words("\x1b\xff\xe2\x80\xae\n").text(), "\\x1b\\xff\\u202e\n");
  EXPECT_EQ(element("p", {{"title", "\"><b>"}}, "<i>").text(), "<p title=\"&quot;&gt;&lt;b&gt;\">&lt;i&gt;</p>");
}

TEST(Markup, CoordinatesHaveOneDecimal) {
  EXPECT_EQ(element("a", {{"x", 1.04}, {"y", -0.01}, {"z", 1e300}}).text(), "<a x=\"1\" y=\"0\" z=\"0\"></a>");
}

TEST(Document, IsWellFormedWhateverItIsAbout) {
  const auto page = document(
      hostile, heading(hostile, hostile) + notice(hostile) + tiles({{hostile, hostile, hostile}}) +
                   section(hostile, table({{hostile}, {hostile, true}}, {{hostile, hostile}, {hostile}}) + facts({{hostile, hostile}})) +
                   folded(hostile, paragraph(hostile)));
  EXPECT_EQ(tests::why_not_well_formed(page), "");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
}

TEST(Document, MayLoadAndRunNothing) {
  const auto page = document("x", {});
  EXPECT_NE(page.find("default-src &#39;none&#39;"), std::string::npos);
  for (const char* reach : {"http://", "https://", "url(", "@import", "src=", "href="})
    EXPECT_EQ(page.find(reach), std::string::npos) << reach;
}

TEST(Document, SectionsWithoutContentAreLeftOut) { EXPECT_TRUE(section("slow devices", {}).empty()); }

TEST(WellFormed, SeesWhatIsNot) {
  for (const char* broken :
       {"<p>", "</p>", "<p></i>", "a & b", "<p a=b></p>", "<p a=\"<\"></p>", "a < b", "<p a=\"1\"", "<p \"=\"x\"></p>"})
    EXPECT_NE(tests::why_not_well_formed(std::string{"<!DOCTYPE html>\n"} + broken), "") << broken;
  EXPECT_EQ(tests::why_not_well_formed("<!DOCTYPE html>\n<p a=\"&amp;\">x<br/></p>"), "");
}

}  // namespace
}  // namespace flotilla::page
