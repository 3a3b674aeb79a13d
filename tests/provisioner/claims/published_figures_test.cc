#include "provisioner/claims/published_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PublishedFiguresTest : public ::testing::Test {
 protected:
  Result<std::vector<FigureRow>> Read(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(folder_ / "a.csv", text).ok());
    return PublishedFigures(folder_.path())
        .Read("a.csv", {.texts = {"name"}, .numbers = {"usd"}, .counts = {"machines"}});
  }

  std::string ErrorOf(const std::string& text) {
    const Result<std::vector<FigureRow>> rows = Read(text);
    return rows.ok() ? "" : std::string(rows.status().message());
  }

  TemporaryFolder folder_;
};

TEST_F(PublishedFiguresTest, ColumnsAreFoundByNameInAnyOrder) {
  const auto rows = Read("machines,other,usd,name\n8,x,1.5,a\n0,,0,b\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_THAT((*rows)[0].texts, ElementsAre("a"));
  EXPECT_THAT((*rows)[0].numbers, ElementsAre(1.5));
  EXPECT_THAT((*rows)[0].counts, ElementsAre(8));
  EXPECT_THAT((*rows)[1].counts, ElementsAre(0));
}

TEST_F(PublishedFiguresTest, DamageIsToldWithFileLineAndColumn) {
  EXPECT_THAT(ErrorOf("name,usd\na,1\n"), HasSubstr("a.csv:2: column machines: is missing"));
  EXPECT_THAT(ErrorOf("name,usd,machines\na,1,2\nb,1\n"), HasSubstr("a.csv:3: column machines"));
  for (const char* usd : {"", "x", "1x", "-1", "nan", "inf", "1e999", " 1"}) {
    EXPECT_THAT(
        ErrorOf(std::string("name,usd,machines\na,") + usd + ",2\n"),
        HasSubstr("a.csv:2: column usd: '"))
        << usd;
  }
  for (const char* count : {"1.5", "100001", "1e9"}) {
    EXPECT_THAT(
        ErrorOf(std::string("name,usd,machines\na,1,") + count + "\n"),
        HasSubstr("is no whole number from 0 to 100000"))
        << count;
  }
  EXPECT_THAT(ErrorOf("name,usd,machines\n"), HasSubstr("a.csv: has no rows"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("a.csv: has no rows"));
  EXPECT_THAT(ErrorOf("name,usd,machines\n\"a,1,2\n"), HasSubstr("a.csv"));
}

TEST_F(PublishedFiguresTest, AMissingFileIsNamed) {
  const auto rows = PublishedFigures(folder_.path()).Read("parcae/costs.csv", {});
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(rows.status().message()), HasSubstr("parcae/costs.csv"));
}

}  // namespace
}  // namespace ps::provisioner
