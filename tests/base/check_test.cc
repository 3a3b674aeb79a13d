#include "ps/base/check.h"

#include "gtest/gtest.h"

namespace ps {
namespace {

TEST(CheckDeathTest, AFailureNamesFileConditionAndValues) {
  const int have = 3;
  EXPECT_DEATH(
      { PS_CHECK(have == 4) << "have " << have; },
      "check_test.cc:[0-9]+: check failed: have == 4 have 3");
}

TEST(CheckDeathTest, AFailureWithoutAMessageStillNamesTheCondition) {
  EXPECT_DEATH({ PS_CHECK(1 + 1 == 3); }, "check failed: 1 \\+ 1 == 3");
}

TEST(CheckTest, ATrueConditionEvaluatesItsMessageNever) {
  int evaluated = 0;
  PS_CHECK(true) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(CheckTest, ConditionIsEvaluatedOnce) {
  int evaluated = 0;
  PS_CHECK(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckTest, ItIsOneStatementInAnIfWithElse) {
  bool is_else_taken = false;
  // NOLINTBEGIN(readability-braces-around-statements): the braces are missing on purpose
  if (false)
    PS_CHECK(false);
  else
    is_else_taken = true;
  // NOLINTEND(readability-braces-around-statements)
  EXPECT_TRUE(is_else_taken);
}

}  // namespace
}  // namespace ps
