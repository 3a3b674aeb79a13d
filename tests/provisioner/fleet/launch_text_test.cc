#include "provisioner/fleet/launch_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/base/host_port.h"

namespace ps::provisioner {
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

}  // namespace
}  // namespace ps::provisioner
