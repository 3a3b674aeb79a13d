#include <string>
#include <vector>

#include "provisioner/claims/seed_claims.h"
#include "provisioner/profile/share_search.h"

namespace ps::provisioner {
namespace {

constexpr char kSyncSwitch[] = "syncswitch";

/// Rounds and steps by themselves take so long; how much sooner a job ends that begins with a share
/// of rounds than rounds alone. `async_time`: of steps alone, as a share of that of rounds alone.
double SpeedUp(double share, double async_time) {
  return 1 / (share + (1 - share) * async_time);
}

}  // namespace

void AddSyncSwitchClaims(std::vector<Claim>* claims) {
  const std::string law =
      "the published times of rounds and of steps alone, by the share of each; nothing was trained";
  claims->push_back(
      {.seed = kSyncSwitch,
       .is_headline = true,
       .text = "faster than rounds alone, ResNet-32, 6.25 % of rounds",
       .published = 5.13,
       .unit = " x",
       .recorded = 4.88,
       .how = law,
       .ours = []() -> Result<double> { return SpeedUp(0.0625, 0.152); }});
  claims->push_back(
      {.seed = kSyncSwitch,
       .is_headline = true,
       .text = "3.8 % more accurate than steps alone, in more time",
       .published = 1.23,
       .unit = " x",
       .why_not = "it needs ResNet-32 and ResNet-50 to be trained to their ends by 8 GPUs, in both "
                  "modes"});
  claims->push_back(
      {.seed = kSyncSwitch,
       .text = "faster than rounds alone, ResNet-50, 12.5 % of rounds",
       .published = 1 / 0.601,
       .unit = " x",
       .equal_within = 0.01,
       .recorded = 1.68,
       .how = law,
       .ours = []() -> Result<double> { return SpeedUp(0.125, 0.538); }});
  claims->push_back(
      {.seed = kSyncSwitch,
       .text = "faster than rounds alone, 16 workers, 50 % of rounds",
       .published = 1 / 0.536,
       .unit = " x",
       .why_not = "steps alone diverge there, so that they have no time"});
  claims->push_back(
      {.seed = kSyncSwitch,
       .text = "rounds that 5 % of 64,000 steps are, 8 workers",
       .published = 400,
       .digits = 0,
       .better = Better::kNearer,
       .recorded = 400,
       .ours = []() -> Result<double> {
         return static_cast<double>(StepsOfShare(0.05, 64'000, 8).rounds);
       }});
  claims->push_back(
      {.seed = kSyncSwitch,
       .text = "time of a switch",
       .published = 90,
       .unit = " s",
       .digits = 0,
       .better = Better::kLower,
       .why_not = "it depends on the machine; here nobody stops, a switch is between two leases "
                  "(ModeSwitchTest)"});
}

}  // namespace ps::provisioner
