// Every claim with the shipped figures, in an optimised build.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "provisioner/claims/claims.h"

namespace ps::provisioner {
namespace {

/// A record that ours has left behind says nothing of what gets worse later.
TEST(ClaimsRecordTest, EveryFigureIsTheOneThatIsRecorded) {
  size_t checked_count = 0;
  for (const Claim& claim : AllClaims({.data = "tests/data", .configs = "configs"}, {})) {
    const Result<CheckedClaim> checked = CheckClaim(claim);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_FALSE(checked->is_worse_than_recorded) << claim.text << " " << checked->ours;
    if (claim.ours != nullptr) {
      ++checked_count;
      EXPECT_EQ(FigureText(claim, checked->ours), FigureText(claim, claim.recorded)) << claim.text;
    }
  }
  EXPECT_GT(checked_count, 35U);
}

}  // namespace
}  // namespace ps::provisioner
