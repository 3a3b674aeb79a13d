#include "ps/server/coordinator_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using std::chrono::seconds;

class CoordinatorLinkTest : public ::testing::Test {
 protected:
  CoordinatorLinkTest() { life_.number = 3; }

  /// How many times it has registered since the last look.
  size_t Registrations() {
    return static_cast<size_t>(
        std::ranges::count_if(std::exchange(sent_.all, {}), [](const SentMessages::Sent& s) {
          return std::holds_alternative<proto::RegisterShard>(s.message);
        }));
  }

  Life life_{kShard};
  TimePoint now_{seconds(100)};
  SentMessages sent_;
  CoordinatorLink link_{{kShard, "host", 4711, 99, 0, LaunchId(12)}, life_, NullLogger()};
};

TEST_F(CoordinatorLinkTest, RegistrationIsRepeatedUntilASetUpComes) {
  link_.OnConnected(kCoordinator, 1, now_, &sent_);
  const auto* const first = std::get_if<proto::RegisterShard>(&sent_.all.at(0).message);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->life, 3U);
  sent_.all.clear();
  link_.Repeat(now_, &sent_);
  EXPECT_EQ(Registrations(), 0U) << "it is not due";
  now_ += life_.settings.timing.retry_first;
  link_.Repeat(now_, &sent_);
  EXPECT_EQ(Registrations(), 1U);
  link_.OnRegistered();
  now_ += seconds(1);
  link_.Repeat(now_, &sent_);
  EXPECT_EQ(Registrations(), 0U);
  link_.OnConnected(proto::PeerId(8), 2, now_, &sent_);
  EXPECT_FALSE(link_.is_registered()) << "another connection";
  EXPECT_EQ(link_.term(), 2U);
}

TEST_F(CoordinatorLinkTest, OneOfAnEarlierTermIsClosed) {
  link_.OnConnected(kCoordinator, 2, now_, &sent_);
  link_.OnConnected(proto::PeerId(8), 1, now_, &sent_);
  EXPECT_TRUE(sent_.closed.contains(proto::PeerId(8)));
  EXPECT_EQ(link_.peer(), kCoordinator);
}

TEST_F(CoordinatorLinkTest, ANoticeIsToldOnceItIsRegisteredAndUntilItIsKnown) {
  link_.OnNotice(now_ + seconds(30), "spot", now_, &sent_);
  link_.OnNotice(now_ + seconds(60), "later", now_, &sent_);
  EXPECT_TRUE(sent_.all.empty());
  link_.OnConnected(kCoordinator, 1, now_, &sent_);
  link_.OnRegistered();
  sent_.all.clear();
  link_.Repeat(now_, &sent_);
  const auto* const notice = std::get_if<proto::ServerNotice>(&sent_.all.at(0).message);
  ASSERT_NE(notice, nullptr);
  EXPECT_EQ(notice->grace_ms, 30000U);
  EXPECT_EQ(notice->what, "spot") << "which leaves less time";
  sent_.all.clear();
  link_.OnNoticeKnown();
  now_ += seconds(1);
  link_.Repeat(now_, &sent_);
  EXPECT_TRUE(sent_.all.empty());
}

TEST_F(CoordinatorLinkTest, WhoIsGoneForTooLongEndsTheShard) {
  link_.OnConnected(kCoordinator, 1, now_, &sent_);
  link_.OnClosed(now_);
  link_.NoteTick(now_);
  const Duration orphan = life_.settings.timing.orphan;
  EXPECT_TRUE(link_.CheckSilence(now_ + orphan).ok());
  EXPECT_EQ(link_.CheckSilence(now_ + orphan + seconds(1)).code(), StatusCode::kUnavailable);
  sent_.all.clear();
  link_.Tell(proto::ShardReady{kShard, 3}, &sent_);
  EXPECT_TRUE(sent_.all.empty()) << "there is nobody to tell";
}

}  // namespace
}  // namespace ps::server
