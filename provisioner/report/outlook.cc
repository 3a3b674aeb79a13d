#include "provisioner/report/outlook.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "provisioner/strategies/lifetimes.h"
#include "provisioner/strategies/revocable_objective.h"
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

struct SharedLaw {
  std::vector<proto::LifetimePoint> points;
  const LifetimeLaw* law = nullptr;
};

/// The spot price of the offer's zone.
const proto::SpotPrice* SpotOf(const proto::InstanceType& type, const Offer& offer) {
  const auto found = std::ranges::find(type.spot, offer.zone, &proto::SpotPrice::zone);
  return found == type.spot.end() ? LowestSpot(type) : &*found;
}

const std::string& TypeOf(const PlanProblem& problem, const Offer& offer) {
  return problem.speed->classes()[static_cast<size_t>(offer.worker_class)].name;
}

/// In hours, of the machines whose age is known.
std::vector<double> AgesOfHeld(
    const SpeedModel& speed, const Offer& offer, const std::vector<TypeCount>& held) {
  std::vector<double> ages;
  for (const TypeCount& some : held) {
    if (some.age_s > 0 && FindClass(speed, some) == offer.worker_class) {
      ages.insert(ages.end(), static_cast<size_t>(some.count), some.age_s / kHourS);
    }
  }
  return ages;
}

}  // namespace

Result<CatalogLives> LivesOf(
    const proto::Catalog& catalog, const PlanProblem& problem, const OutlookSetup& setup) {
  const LifetimeLaw* otherwise = nullptr;
  std::string otherwise_from;
  if (!setup.lifetimes.empty()) {
    PS_ASSIGN(otherwise, PublishedLaw(setup.lifetimes));
    otherwise_from = fmt::format("CM-DARE's of {} on GCP in 2019", setup.lifetimes);
  }
  CatalogLives out;
  out.lives.detect_s = setup.detect_s;
  out.lives.join_s = kJoinS;
  std::vector<SharedLaw> laws;  // zones with the same table have the same law
  for (const Offer& offer : problem.offers) {
    const proto::InstanceType& type = *catalog.Find(TypeOf(problem, offer));
    const double start_up_s =
        setup.start_up_s.value_or(type.start_up_s > 0 ? type.start_up_s : kStartUpS);
    OfferLife& life = out.lives.offers.emplace_back(OfferLife{nullptr, start_up_s});
    std::string& from = out.from.emplace_back();
    if (offer.market != proto::Market::kSpot) {
      continue;
    }
    life.ages_hours = AgesOfHeld(*problem.speed, offer, setup.held);
    const proto::SpotPrice* const spot = SpotOf(type, offer);
    if (spot == nullptr || spot->lifetimes.empty()) {
      life.law = otherwise;
      from = otherwise_from;
      continue;
    }
    const auto same = std::ranges::find(laws, spot->lifetimes, &SharedLaw::points);
    from = spot->lifetimes_from.empty() ? "the catalog" : spot->lifetimes_from;
    if (same != laws.end()) {
      life.law = same->law;
      continue;
    }
    std::vector<LifetimePoint> points;
    for (const proto::LifetimePoint& point : spot->lifetimes) {
      points.push_back({point.hours, point.revoked});
    }
    PS_ASSIGN(LifetimeLaw law, LifetimeLaw::FromPoints(std::move(points)));
    out.lives.laws.push_back(std::make_unique<LifetimeLaw>(std::move(law)));
    life.law = out.lives.laws.back().get();
    laws.push_back({spot->lifetimes, life.law});
  }
  return out;
}

Result<proto::PlanRevocations> ExpectRevocations(
    const proto::Catalog& catalog,
    const PlanProblem& problem,
    const FleetChoice& choice,
    const OutlookSetup& setup) {
  PS_ASSIGN(const CatalogLives known, LivesOf(catalog, problem, setup));
  proto::PlanRevocations out;
  bool has_law = false;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (choice.counts[i] == 0) {
      continue;
    }
    const OfferLife& life = known.lives.offers[i];
    has_law = has_law || life.law != nullptr;
    NoteOnce(known.from[i], &out.lifetimes_from);
    if (life.law != nullptr) {
      out.start_up_s = std::max(out.start_up_s, life.start_up_s);
    } else if (problem.offers[i].market == proto::Market::kSpot) {
      NoteOnce(TypeOf(problem, problem.offers[i]), &out.unknown);
    }
  }
  if (!has_law) {
    return out;
  }
  const HourExpectation hours = FleetHours(problem, known.lives).Expect(choice);
  out.revoked_a_day = hours.revoked * 24 / kHoursAhead;
  out.samples_per_s = hours.samples_per_s;
  out.usd_per_hour = hours.usd_per_hour;
  if (!(choice.steps > 0)) {
    return out;
  }
  PS_ASSIGN(const RunExpectation run, ExpectChoice(problem, choice, known.lives, true));
  // Taking over, which machines survive.
  const double more_s = choice.seconds - run.seconds_without;
  const double more_usd = choice.usd - run.usd_without;
  out.revoked = run.revocations;
  out.seconds = run.seconds + more_s;
  out.usd = run.usd + more_usd;
  const Result<RunExpectation> alone = ExpectChoice(problem, choice, known.lives, false);
  if (alone.ok()) {
    out.revoked_unreplaced = alone->revocations;
    out.seconds_unreplaced = alone->seconds + more_s;
    out.usd_unreplaced = alone->usd + more_usd;
    out.lost_unreplaced = 1;
    for (size_t i = 0; i < choice.counts.size(); ++i) {
      const OfferLife& life = known.lives.offers[i];
      const double run_hours = choice.steps / choice.speed.steps_per_s / kHourS;
      for (const AgeGroup& group : AgesOf(life, choice.counts[i], run_hours)) {
        const double lost = life.law == nullptr
                                ? 0
                                : life.law->RevokedWithin(group.age_hours, alone->seconds / kHourS);
        out.lost_unreplaced *= std::pow(lost, group.count);
      }
    }
  }
  return out;
}

}  // namespace ps::provisioner
