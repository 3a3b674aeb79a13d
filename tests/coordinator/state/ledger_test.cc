#include "ps/coordinator/state/ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ps/base/random.h"

namespace ps::coordinator {
namespace {

TEST(LedgerTest, ReturnedSamplesAreLeasedBeforeFreshOnes) {
  LedgerState state;
  TouchedRows touched;
  SampleLedger ledger(&state, 100, 1, &touched);
  const TrainLease first = *ledger.Grant(Incarnation(1), 30, 0);
  ASSERT_TRUE(ledger.Count(first.lease, 0, 10).ok());
  ledger.Return(first.lease);
  const TrainLease second = *ledger.Grant(Incarnation(2), 30, 0);
  EXPECT_EQ(second.begin, 10U);
  EXPECT_EQ(second.end, 30U);
  EXPECT_GT(second.lease, first.lease);
  EXPECT_EQ(ledger.state().epochs[0].samples_returned, 20U);
  EXPECT_EQ(ledger.Grant(Incarnation(2), 30, 0)->begin, 30U);
}

TEST(LedgerTest, OnlyTheNextSamplesOfAnOpenLeaseCount) {
  LedgerState state;
  TouchedRows touched;
  SampleLedger ledger(&state, 100, 1, &touched);
  const LeaseId lease = ledger.Grant(Incarnation(1), 30, 0)->lease;
  EXPECT_EQ(ledger.Count(lease, 10, 20).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger.Count(lease, 0, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger.Count(lease, 0, 31).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger.Count(LeaseId(9), 0, 10).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(ledger.Count(lease, 0, 30).ok());
  EXPECT_EQ(ledger.Count(lease, 0, 30).code(), StatusCode::kInvalidArgument) << "it is closed";
  EXPECT_EQ(ledger.samples_counted(), 30U);
}

TEST(LedgerTest, ALeaseThatIsCutGivesTheRestBack) {
  LedgerState state;
  TouchedRows touched;
  SampleLedger ledger(&state, 100, 1, &touched);
  const LeaseId lease = ledger.Grant(Incarnation(1), 30, 0, 30)->lease;
  EXPECT_EQ(ledger.Cut(lease, 0).code(), StatusCode::kInvalidArgument) << "nothing is left";
  EXPECT_EQ(ledger.Cut(lease, 31).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger.Cut(LeaseId(9), 10).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(ledger.Cut(lease, 12).ok());
  EXPECT_TRUE(ledger.Cut(lease, 12).ok()) << "told again";
  EXPECT_TRUE(ledger.Check().ok()) << ledger.Check();
  EXPECT_EQ(ledger.Count(lease, 0, 30).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger.Grant(Incarnation(2), 30, 0)->begin, 12U) << "before fresh ones";
  EXPECT_TRUE(ledger.Count(lease, 0, 12).ok());
  EXPECT_FALSE(ledger.HasLease(Incarnation(1)));
  EXPECT_TRUE(ledger.Check().ok()) << ledger.Check();
}

TEST(LedgerTest, AnEpochBeginsOnlySoFarAheadOfUnfinishedOnes) {
  LedgerState state;
  TouchedRows touched;
  SampleLedger ledger(&state, 10, 3, &touched);
  const TrainLease straggler = *ledger.Grant(Incarnation(1), 10, 0);
  EXPECT_FALSE(ledger.HasWork(0));
  ASSERT_TRUE(ledger.HasWork(1));
  const TrainLease ahead = *ledger.Grant(Incarnation(2), 10, 1);
  EXPECT_EQ(ahead.epoch, 1U);
  ASSERT_TRUE(ledger.Count(ahead.lease, 0, 10).ok());
  EXPECT_TRUE(ledger.HasWork(1)) << "one unfinished epoch is allowed";
  EXPECT_EQ(ledger.Grant(Incarnation(2), 10, 1)->epoch, 2U);
  ledger.Return(straggler.lease);
  EXPECT_EQ(ledger.Grant(Incarnation(2), 10, 1)->epoch, 0U) << "the oldest epoch first";
}

TEST(LedgerTest, NothingIsGrantedWhenAllIsCounted) {
  LedgerState state;
  TouchedRows touched;
  SampleLedger ledger(&state, 10, 1, &touched);
  ASSERT_TRUE(ledger.Count(ledger.Grant(Incarnation(1), 99, 0)->lease, 0, 10).ok());
  EXPECT_TRUE(ledger.is_complete());
  EXPECT_FALSE(ledger.Grant(Incarnation(1), 1, 5).has_value());
}

/// Grants, counts and returns at random; each sample of each epoch must be counted exactly once.
void RunRandomJob(uint64_t seed) {
  Random random(seed);
  const uint64_t samples = 1 + random.Below(300);
  const auto epochs = static_cast<uint32_t>(1 + random.Below(4));
  const auto ahead = static_cast<uint32_t>(random.Below(2));
  LedgerState state;
  TouchedRows touched;
  SampleLedger ledger(&state, samples, epochs, &touched);
  std::set<LeaseId> open;
  std::set<std::pair<uint32_t, uint64_t>> counted;
  for (int i = 0; i < 100000 && !ledger.is_complete(); ++i) {
    const uint64_t what = random.Below(10);
    if (what < 3 || open.empty()) {
      const auto lease =
          ledger.Grant(Incarnation(1 + random.Below(4)), 1 + random.Below(40), ahead);
      if (lease) {
        EXPECT_TRUE(open.insert(lease->lease).second);
      }
    } else {
      const LeaseId lease = *std::next(open.begin(), static_cast<long>(random.Below(open.size())));
      const TrainLease before = *ledger.Find(lease);
      if (what < 4) {
        ledger.Return(lease);
      } else {
        const uint64_t end = before.next + 1 + random.Below(before.end - before.next);
        ASSERT_TRUE(ledger.Count(lease, before.next, end).ok());
        for (uint64_t sample = before.next; sample < end; ++sample) {
          ASSERT_TRUE(counted.emplace(before.epoch, sample).second) << "sample " << sample;
        }
      }
      if (ledger.Find(lease) == nullptr) {
        open.erase(lease);
      }
    }
    const Status status = ledger.Check();
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(ledger.is_complete());
  EXPECT_EQ(counted.size(), samples * epochs);
}

TEST(LedgerTest, EverySampleIsCountedOnceWhateverIsReturned) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RunRandomJob(seed);
  }
}

}  // namespace
}  // namespace ps::coordinator
