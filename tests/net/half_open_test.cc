#include "ps/net/internal/half_open.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace ps::net {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kPlaces = 4;
constexpr Duration kHalfOpenPatience = milliseconds(500);

class HalfOpenTest : public testing::Test {
 protected:
  /// All places, by connections of this address.
  void Fill(const std::string& address) {
    for (uint32_t i = 0; i < kPlaces; ++i) {
      Add(address);
    }
  }

  proto::PeerId Add(const std::string& address) {
    table_.Add(proto::PeerId(++last_), address, now_);
    return proto::PeerId(last_);
  }

  HalfOpen table_{kPlaces, kHalfOpenPatience};
  TimePoint now_{std::chrono::seconds(100)};
  uint64_t last_ = 0;
};

TEST_F(HalfOpenTest, WhileThereIsRoomNobodyHasToGo) {
  Add("10.0.0.9");
  const HalfOpen::Verdict verdict = table_.Judge("10.0.0.9", now_);
  EXPECT_TRUE(verdict.is_let_in);
  EXPECT_FALSE(verdict.displaced.has_value());
}

TEST_F(HalfOpenTest, AnAddressThatHasAllPlacesKeepsOutNoOther) {
  Fill("10.0.0.9");
  const HalfOpen::Verdict verdict = table_.Judge("10.0.0.1", now_);
  EXPECT_TRUE(verdict.is_let_in);
  EXPECT_EQ(verdict.displaced, proto::PeerId(1)) << "the oldest";
}

TEST_F(HalfOpenTest, ACrowdOfOneAddressIsServedInTurn) {
  Fill("10.0.0.9");
  EXPECT_FALSE(table_.Judge("10.0.0.9", now_ + kHalfOpenPatience).is_let_in);
  const HalfOpen::Verdict later = table_.Judge("10.0.0.9", now_ + kHalfOpenPatience + Duration(1));
  EXPECT_TRUE(later.is_let_in);
  EXPECT_EQ(later.displaced, proto::PeerId(1));
}

TEST_F(HalfOpenTest, IdleConnectionsOfManyAddressesKeepOutNobodyForLong) {
  for (uint32_t i = 0; i < kPlaces; ++i) {
    Add("10.0.0." + std::to_string(i));
  }
  EXPECT_FALSE(table_.Judge("10.0.1.1", now_).is_let_in);
  EXPECT_TRUE(table_.Judge("10.0.1.1", now_ + kHalfOpenPatience * 2).is_let_in);
}

TEST_F(HalfOpenTest, AKnownAddressComesInAtOnceAndNoUnknownOneTakesItsPlace) {
  table_.Know("10.0.0.1");
  for (uint32_t i = 0; i < kPlaces; ++i) {
    Add("10.0.1." + std::to_string(i));
  }
  const HalfOpen::Verdict verdict = table_.Judge("10.0.0.1", now_);
  EXPECT_TRUE(verdict.is_let_in);
  ASSERT_TRUE(verdict.displaced.has_value());
  table_.Remove(*verdict.displaced);
  const proto::PeerId known = Add("10.0.0.1");
  for (int i = 0; i < 10; ++i) {
    now_ += kHalfOpenPatience * 2;
    const HalfOpen::Verdict next = table_.Judge("10.0.2." + std::to_string(i), now_);
    ASSERT_TRUE(next.displaced.has_value());
    EXPECT_NE(next.displaced, known);
    table_.Remove(*next.displaced);
    Add("10.0.2." + std::to_string(i));
  }
}

TEST_F(HalfOpenTest, WhereAllAreKnownAnUnknownNewcomerWaits) {
  table_.Know("10.0.0.9");
  Fill("10.0.0.9");
  EXPECT_FALSE(table_.Judge("10.0.0.1", now_ + kHalfOpenPatience * 2).is_let_in);
}

TEST_F(HalfOpenTest, WhoeverWasRefusedAndLingersGoesFirst) {
  Fill("10.0.0.9");
  table_.NoteRefused(proto::PeerId(3));
  EXPECT_EQ(table_.Judge("10.0.0.9", now_).displaced, proto::PeerId(3));
}

}  // namespace
}  // namespace ps::net
