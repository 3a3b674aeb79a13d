#include "psctl/launch_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::psctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LaunchTextTest, PlaceholdersAreFilledInAndOtherBracesStay) {
  EXPECT_EQ(FillLaunchText("{name} {role} {index}{index}", "worker", 12), "worker12 worker 1212");
  EXPECT_EQ(FillLaunchText("{nam} {} {", "worker", 1), "{nam} {} {");
  EXPECT_EQ(FillLaunchText("", "server", 0), "");
}

TEST(LaunchTextTest, APrefixIsCutAtSpaces) {
  EXPECT_THAT(
      LaunchWords("  ip netns\texec {name} ", "server", 0),
      ElementsAre("ip", "netns", "exec", "server0"));
  EXPECT_THAT(LaunchWords(" ", "server", 0), IsEmpty());
}

TEST(LaunchTextTest, AnAddressThatIsEveryAddressIsNeverAdvertised) {
  EXPECT_EQ(ReachableHost("0.0.0.0", "", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(ReachableHost("::", "", "::1"), "::1");
  EXPECT_EQ(ReachableHost("0.0.0.0", "10.0.0.7", "127.0.0.1"), "10.0.0.7");
  EXPECT_EQ(ReachableHost("10.0.0.7", "", "127.0.0.1"), "10.0.0.7");
}

}  // namespace
}  // namespace ps::psctl
