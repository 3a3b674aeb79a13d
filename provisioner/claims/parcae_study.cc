#include "provisioner/claims/parcae_study.h"

#include <algorithm>
#include <numeric>

#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

/// Events that lead from one count to the next; no plans are published for them.
std::vector<ParcaeMinute> MinutesOf(const std::vector<uint32_t>& counts) {
  std::vector<ParcaeMinute> minutes;
  int before = 0;
  for (const uint32_t count : counts) {
    const int now = static_cast<int>(count);
    minutes.push_back(
        {.event = {std::max(now - before, 0), std::max(before - now, 0)},
         .truth = {},
         .predicted = {}});
    before = now;
  }
  return minutes;
}

}  // namespace

ParcaeRuns::ParcaeRuns(ParcaeCase some, int draws)
    : some_(std::move(some)), ideal_(ParcaeIdealMinutes(some_)), costs_(some_.model, draws, 1) {}

const ParcaeOutcome& ParcaeRuns::Under(const std::string& policy) {
  const auto known = outcomes_.find(policy);
  if (known != outcomes_.end()) {
    return known->second;
  }
  const std::vector<std::pair<std::string, ParcaePolicy>> policies = ParcaePolicies();
  const auto found =
      std::ranges::find(policies, policy, &std::pair<std::string, ParcaePolicy>::first);
  PS_CHECK(found != policies.end());
  return outcomes_[policy] = RunParcaePolicy(some_, &costs_, found->second);
}

double ParcaeRuns::Ratio(const std::string& policy, const std::string& other) {
  return Under(policy).all() / Under(other).all();
}

double ParcaeRuns::BelowIdeal(const std::string& policy) {
  const double ideal = std::accumulate(ideal_.begin(), ideal_.end(), 0.0);
  return 100 * (1 - Under(policy).all() / ideal);
}

Result<ParcaeRuns*> ParcaeStudy::Of(const std::string& model) {
  std::unique_ptr<ParcaeRuns>& runs = runs_[model];
  if (runs == nullptr) {
    PS_ASSIGN(ParcaeCase some, LoadParcaeCase(figures_, model));
    if (!counts_.empty()) {
      some.minutes = MinutesOf(counts_);
    }
    runs = std::make_unique<ParcaeRuns>(std::move(some), kDraws);
  }
  return runs.get();
}

}  // namespace ps::provisioner
