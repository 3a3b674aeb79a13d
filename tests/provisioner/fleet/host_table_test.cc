#include "provisioner/fleet/host_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::provisioner {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr TimePoint kStart{};

TEST(HostTableTest, TheEmptiestHostIsTakenAndTheFirstOfEqualOnes) {
  HostTable hosts({{"small", 1}, {"large", 3}});
  std::vector<std::string> taken;
  for (int i = 0; i < 4; ++i) {
    taken.push_back(hosts.Take(kStart).value());
  }
  EXPECT_THAT(taken, testing::ElementsAre("small", "large", "large", "large"));
  EXPECT_THAT(
      std::string(hosts.Take(kStart).status().message()),
      HasSubstr("no free slot: small is full, large is full"));
  hosts.Release("large", false, kStart);
  EXPECT_EQ(hosts.Take(kStart).value(), "large");
}

TEST(HostTableTest, AHostThatFailsIsLeftOutForLongerEachTime) {
  HostTable hosts({{"a", 2}});
  TimePoint now = kStart;
  for (const int wait_s : {10, 20, 40, 80, 160, 320, 600, 600}) {
    ASSERT_TRUE(hosts.Take(now).ok());
    hosts.Release("a", true, now);
    EXPECT_EQ(hosts.Take(now + seconds(wait_s - 1)).status().code(), StatusCode::kUnavailable);
    now += seconds(wait_s);
  }
  ASSERT_TRUE(hosts.Take(now).ok());
  hosts.Release("a", false, now);
  ASSERT_TRUE(hosts.Take(now).ok());
  hosts.Release("a", true, now);
  EXPECT_THAT(
      std::string(hosts.Take(now).status().message()),
      HasSubstr("a is left out for 10.0 s after 1 failure"));
  EXPECT_TRUE(hosts.Take(now + seconds(10)).ok());
}

TEST(HostTableTest, OneFaultThatEndsManyProcessesCountsOnce) {
  HostTable hosts({{"a", 3}});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(hosts.Take(kStart).ok());
  }
  for (int i = 0; i < 3; ++i) {
    hosts.Release("a", true, kStart);
  }
  EXPECT_TRUE(hosts.Take(kStart + seconds(10)).ok());
}

TEST(HostTableTest, AHostOfAnotherZoneIsNotTaken) {
  HostTable hosts({{"a1", 1, "a"}, {"b1", 1, "b"}, {"b2", 1, "b"}, {"any", 1}});
  EXPECT_EQ(hosts.Take(kStart, "b").value(), "b1");
  EXPECT_EQ(hosts.Take(kStart, "b").value(), "b2");
  EXPECT_EQ(
      std::string(hosts.Take(kStart, "b").status().message()),
      "launch.hosts has no free slot in zone b: b1 is full, b2 is full");
  EXPECT_EQ(hosts.Take(kStart, "a").value(), "a1");
  EXPECT_EQ(hosts.Take(kStart, "").value(), "any") << "the zone without a name";
  EXPECT_THAT(
      std::string(hosts.Take(kStart, "c").status().message()),
      HasSubstr("no free slot in zone c: no host is there"));
  hosts.Release("b1", true, kStart);
  EXPECT_FALSE(hosts.Take(kStart, "b").ok());
  EXPECT_EQ(hosts.Take(kStart + seconds(10), "b").value(), "b1");
}

TEST(HostTableTest, AdoptedProcessesHaveTheirSlots) {
  HostTable hosts({{"a", 1}, {"b", 1}});
  hosts.TakeOn("a");
  hosts.TakeOn("one that the job no longer names");
  EXPECT_EQ(hosts.Take(kStart).value(), "b");
}

}  // namespace
}  // namespace ps::provisioner
