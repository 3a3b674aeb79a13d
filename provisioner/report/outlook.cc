#include "provisioner/report/outlook.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <utility>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "provisioner/strategies/expected_run.h"
#include "provisioner/strategies/lifetimes.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

// From a machine's start to its worker's first counted step: docs/measurements/fleet.md.
constexpr double kJoinS = 0.24;
constexpr double kHourS = 3600;

/// "V100@us-central1"
Result<const LifetimeLaw*> PublishedLaw(const std::string& name) {
  const size_t at = std::min(name.find('@'), name.size());
  const std::string region = at == name.size() ? "" : name.substr(at + 1);
  const LifetimeLaw* const law = PublishedLifetimes(name.substr(0, at), region);
  if (law == nullptr) {
    return Status::InvalidArgument(fmt::format(
        "no published lifetimes '{}'; there are {}", name, Join(PublishedLifetimeNames())));
  }
  return law;
}

void NoteOnce(const std::string& text, std::vector<std::string>* texts) {
  if (!text.empty() && std::ranges::count(*texts, text) == 0) {
    texts->push_back(text);
  }
}

/// The workers of a choice, with the laws that they live by.
class FleetLives {
 public:
  FleetLives(
      const proto::Catalog& catalog, const LifetimeLaw* otherwise, std::string otherwise_from)
      : catalog_(catalog), otherwise_(otherwise), otherwise_from_(std::move(otherwise_from)) {}

  /// The law of a type in the market of its offer; null where it stays. Notes in `out` where it is
  /// from, or that there is none.
  Result<const LifetimeLaw*> LawOf(
      const Offer& offer, const std::string& type, proto::PlanRevocations* out) {
    if (offer.market != proto::Market::kSpot) {
      return nullptr;
    }
    const proto::SpotPrice* const spot = LowestSpot(*catalog_.Find(type));
    if (spot != nullptr && !spot->lifetimes.empty()) {
      std::vector<LifetimePoint> points;
      for (const proto::LifetimePoint& point : spot->lifetimes) {
        points.push_back({point.hours, point.revoked});
      }
      PS_ASSIGN(LifetimeLaw law, LifetimeLaw::FromPoints(std::move(points)));
      NoteOnce(spot->lifetimes_from, &out->lifetimes_from);
      return &laws_.emplace_back(std::move(law));
    }
    if (otherwise_ == nullptr) {
      NoteOnce(type, &out->unknown);
    } else {
      NoteOnce(otherwise_from_, &out->lifetimes_from);
    }
    return otherwise_;
  }

 private:
  const proto::Catalog& catalog_;
  const LifetimeLaw* const otherwise_;
  const std::string otherwise_from_;
  std::list<LifetimeLaw> laws_;
};

}  // namespace

Result<proto::PlanRevocations> ExpectRevocations(
    const proto::Catalog& catalog,
    const PlanProblem& problem,
    const FleetChoice& choice,
    const OutlookSetup& setup) {
  const LifetimeLaw* otherwise = nullptr;
  std::string otherwise_from;
  if (!setup.lifetimes.empty()) {
    PS_ASSIGN(otherwise, PublishedLaw(setup.lifetimes));
    otherwise_from = fmt::format("CM-DARE's of {} on GCP in 2019", setup.lifetimes);
  }
  FleetLives lives(catalog, otherwise, otherwise_from);
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  const auto& classes = problem.speed->classes();
  std::vector<int> counts(classes.size(), 0);
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    counts[static_cast<size_t>(problem.offers[i].worker_class)] += choice.counts[i];
  }
  const std::vector<double> step_s =
      problem.speed->StepSeconds(counts, {choice.server_hosts, server.link_bytes_per_s});
  double steps_per_s = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    steps_per_s += counts[k] / step_s[k];
  }
  proto::PlanRevocations out;
  out.start_up_s = setup.start_up_s;
  RevocationTimes times{.start_up_s = setup.start_up_s, .join_s = kJoinS};
  std::vector<RevocableWorkers> groups;
  bool has_law = false;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (choice.counts[i] == 0) {
      continue;
    }
    const Offer& offer = problem.offers[i];
    const auto k = static_cast<size_t>(offer.worker_class);
    PS_ASSIGN(const LifetimeLaw* const law, lives.LawOf(offer, classes[k].name, &out));
    has_law = has_law || law != nullptr;
    times.lost_s = law == nullptr ? times.lost_s : std::max(times.lost_s, step_s[k]);
    // Rounding apart, the workers' speeds add up to the fleet's.
    const double share = choice.speed.steps_per_s / steps_per_s;
    groups.push_back({choice.counts[i], share / step_s[k], offer.usd_per_hour, law});
  }
  if (!has_law || !(choice.steps > 0)) {
    return out;
  }
  const double usd_per_hour = server.usd_per_hour * choice.server_hosts;
  PS_ASSIGN(const RunExpectation run, ExpectRun(choice.steps, groups, times, usd_per_hour));
  // Taking over, which machines survive.
  const double more_s = choice.seconds - run.seconds_without;
  const double more_usd = choice.usd - run.usd_without;
  out.revoked = run.revocations;
  out.seconds = run.seconds + more_s;
  out.usd = run.usd + more_usd;
  times.is_replaced = false;
  const Result<RunExpectation> alone = ExpectRun(choice.steps, groups, times, usd_per_hour);
  if (alone.ok()) {
    out.revoked_unreplaced = alone->revocations;
    out.seconds_unreplaced = alone->seconds + more_s;
    out.usd_unreplaced = alone->usd + more_usd;
    out.lost_unreplaced = 1;
    for (const RevocableWorkers& group : groups) {
      const double lost = group.lifetimes == nullptr
                              ? 0
                              : group.lifetimes->RevokedWithin(0, alone->seconds / kHourS);
      out.lost_unreplaced *= std::pow(lost, group.count);
    }
  }
  return out;
}

}  // namespace ps::provisioner
