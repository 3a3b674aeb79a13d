#include "run/planning/live_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "provisioner/profile/start_times.h"
#include "ps/base/text.h"
#include "ps/proto/job/launcher_name.h"

namespace ps::run {
namespace {

using provisioner::FleetAlternative;
using provisioner::FleetWish;

constexpr double kLooksInInterval = 4;
constexpr size_t kCountsMax = 1000;  // intervals that a forecast may look back
constexpr double kNewShare = 0.2;    // of a new measurement in the speed that is kept

std::string_view PolicyName(proto::FleetPolicyKind kind) {
  switch (kind) {
    case proto::FleetPolicyKind::kNone:
      return "none";
    case proto::FleetPolicyKind::kReactive:
      return "reactive";
    case proto::FleetPolicyKind::kHold:
      return "hold";
    case proto::FleetPolicyKind::kParcae:
      return "parcae";
    case proto::FleetPolicyKind::kStandby:
      return "standby";
    case proto::FleetPolicyKind::kDeadline:
      return "deadline";
    case proto::FleetPolicyKind::kOracle:
      return "oracle";
  }
  return "";
}

uint32_t MachinesMax(const LivePolicySettings& settings) {
  const double spares =
      settings.policy == "standby" ? std::ceil(settings.workers_max * provisioner::kSpareShare) : 0;
  return settings.workers_max + static_cast<uint32_t>(spares);
}

std::string FleetText(const FleetWish& fleet) {
  return fleet.on_demand == 0 ? fmt::format("{} spot", fleet.spot)
         : fleet.spot == 0    ? fmt::format("{} on demand", fleet.on_demand)
                           : fmt::format("{} spot and {} on demand", fleet.spot, fleet.on_demand);
}

FleetWish WantedOf(const PolicyFacts& facts) {
  return {.spot = facts.spot.wanted, .on_demand = facts.on_demand.wanted};
}

uint32_t HeldOf(const MachineCounts& counts) {
  return counts.wanted - std::min(counts.wanted, counts.waiting);
}

MachineCounts CountsOf(const proto::JobStatus& status, const std::string& type) {
  const auto row = std::ranges::find(status.fleet, type, &proto::FleetRow::type);
  return row == status.fleet.end() ? MachineCounts()
                                   : MachineCounts{row->wanted, row->present, row->waiting};
}

/// The first ones: a machine that starts for long needs a forecast of hundreds.
std::string NumbersText(const std::vector<double>& values) {
  constexpr size_t kShown = 12;
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kShown); ++i) {
    text += fmt::format(" {:g}", std::round(values[i] * 10) / 10);
  }
  return values.size() > kShown ? text + " ..." : text;
}

}  // namespace

PolicyTypes PolicyTypesOf(const proto::JobConfig& config) {
  const proto::ProvisionerConfig& provisioner = config.provisioner;
  PolicyTypes types;
  types.spot = !provisioner.type.empty() ? provisioner.type
               : config.workers.empty()  ? std::string()
                                         : config.workers.front().type;
  if (provisioner.policy == proto::FleetPolicyKind::kDeadline) {
    types.on_demand = provisioner.on_demand_type;
  }
  return types;
}

LivePolicySettings PolicySettingsOf(const proto::JobConfig& config) {
  const proto::ProvisionerConfig& provisioner = config.provisioner;
  const PolicyTypes types = PolicyTypesOf(config);
  LivePolicySettings settings;
  settings.policy = PolicyName(provisioner.policy);
  settings.interval_s = provisioner.interval_s;
  settings.start_s = provisioner.start_s;
  settings.detect_s = config.fleet.max_detect_s;
  settings.hand_s = provisioner.hand_s;
  settings.deadline_s = provisioner.within_s;
  uint32_t count = 0;
  for (const proto::WorkerGroup& group : config.workers) {
    const double usd = group.usd_per_hour;
    if (group.type == types.spot) {
      const uint32_t minibatch = group.minibatch > 0 ? group.minibatch : config.train.minibatch;
      count += group.count;
      settings.step_samples = double{1} * minibatch * config.train.local_steps;
      settings.speed_of_one = group.step_ms > 0 ? minibatch * 1000.0 / group.step_ms : 0;
      settings.spot_usd_per_hour = usd;
    } else if (group.type == types.on_demand) {
      settings.on_demand_usd_per_hour = usd;
    }
  }
  settings.workers_max =
      provisioner.workers_max > 0 ? provisioner.workers_max : std::max(count, 1U);
  return settings;
}

std::string UseMeasuredStart(
    const proto::JobConfig& config,
    const proto::JobProfile& profile,
    LivePolicySettings* settings) {
  if (settings->start_s != double{proto::ProvisionerConfig().start_s}) {
    return "";
  }
  const std::string type = PolicyTypesOf(config).spot;
  const std::vector<std::string>& rented = config.launch.rent.types;
  // A group with a name of its own has machines of any of these.
  const bool is_any =
      proto::IsRented(config.launch.launcher) && std::ranges::count(rented, type) == 0;
  std::vector<proto::StartSample> starts;
  for (proto::StartSample start : profile.starts) {
    const bool is_its_own =
        is_any ? std::ranges::count(rented, start.instance_type) > 0 : start.instance_type == type;
    if (is_its_own && start.launcher == proto::LauncherName(config.launch.launcher)) {
      start.instance_type = type;
      starts.push_back(std::move(start));
    }
  }
  const auto times = provisioner::StartTimesByType(starts);
  if (times.empty()) {
    return "";
  }
  settings->start_s = times.at(type).median_s;
  return fmt::format(
      "start-up of {}: {}, measured {}; {} reckons with it",
      Printable(type),
      FormatDuration(settings->start_s),
      Plural(static_cast<uint64_t>(times.at(type).count), "time"),
      settings->policy);
}

PolicyFacts PolicyFactsOf(const proto::JobStatus& status, const PolicyTypes& types) {
  PolicyFacts facts;
  facts.now_s = status.elapsed_s;
  facts.spot = CountsOf(status, types.spot);
  if (!types.on_demand.empty()) {
    facts.on_demand = CountsOf(status, types.on_demand);
  }
  facts.samples = static_cast<double>(status.samples_counted);
  facts.samples_total = static_cast<double>(status.samples_total);
  facts.samples_per_s = status.samples_per_s;
  return facts;
}

std::vector<proto::ScaleChange> ChangesFor(const FleetWish& fleet, const PolicyTypes& types) {
  std::vector<proto::ScaleChange> changes(1);
  changes[0].type = types.spot;
  changes[0].count = static_cast<int32_t>(fleet.spot);
  if (!types.on_demand.empty()) {
    proto::ScaleChange& change = changes.emplace_back();
    change.type = types.on_demand;
    change.count = static_cast<int32_t>(fleet.on_demand);
  }
  return changes;
}

FleetWish FleetOf(const proto::FleetDecision& decision) {
  return {.spot = decision.memory->spot, .on_demand = decision.memory->on_demand};
}

void MeasuredSpeeds::Note(uint32_t workers, double samples_per_s) {
  if (workers == 0 || !(samples_per_s > 0) || !std::isfinite(samples_per_s)) {
    return;
  }
  const auto [it, is_new] = by_workers_.emplace(workers, samples_per_s);
  if (!is_new) {
    it->second += kNewShare * (samples_per_s - it->second);
  }
}

double MeasuredSpeeds::Of(uint32_t workers) const {
  const auto above = by_workers_.lower_bound(workers);
  if (above == by_workers_.begin()) {
    return above->second * workers / above->first;
  }
  const auto below = std::prev(above);
  if (above == by_workers_.end()) {
    return below->second * workers / below->first;
  }
  const double share = static_cast<double>(workers - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

void MeasuredSpeeds::Fill(std::vector<double>* rates) const {
  for (uint32_t workers = 1; workers < rates->size(); ++workers) {
    (*rates)[workers] = std::max((*rates)[workers - 1], Of(workers));
  }
}

LivePolicy::LivePolicy(const LivePolicySettings& settings, PolicyTypes types)
    : settings_(settings), types_(std::move(types)), machines_max_(MachinesMax(settings)) {
  const double of_one = settings.speed_of_one > 0 ? settings.speed_of_one : 1;
  for (uint32_t n = 0; n <= settings.workers_max; ++n) {
    job_.samples_per_s.push_back(of_one * n);
  }
  job_.start_s = settings.start_s;
  job_.detect_s = settings.detect_s;
  job_.interval_s = settings.interval_s;
  job_.deadline_s = settings.deadline_s;
  job_.spot_usd_per_hour = settings.spot_usd_per_hour;
  job_.on_demand_usd_per_hour = settings.on_demand_usd_per_hour;
}

double LivePolicy::look_every_s() const {
  return std::min(kLookSecondsMax, settings_.interval_s / kLooksInInterval);
}

/// The others compare fleets with each other, so that one speed is as good as another.
bool LivePolicy::IsSpeedMissing() const {
  return settings_.policy == "deadline" && speeds_.empty() && !(settings_.speed_of_one > 0);
}

void LivePolicy::NotePrices(const std::vector<proto::MarketPrice>& prices) {
  const bool is_of_type = std::ranges::count(prices, types_.spot, &proto::MarketPrice::type) > 0;
  std::optional<double> spot;
  std::optional<double> on_demand;
  for (const proto::MarketPrice& price : prices) {
    // A group with a name of its own has machines of any of these.
    std::optional<double>* const least =
        price.is_spot && (!is_of_type || price.type == types_.spot) ? &spot
        : !price.is_spot && price.type == types_.on_demand          ? &on_demand
                                                                    : nullptr;
    if (least != nullptr) {
      *least = std::min(least->value_or(price.usd_per_hour), price.usd_per_hour);
    }
  }
  job_.spot_usd_per_hour = spot.value_or(settings_.spot_usd_per_hour);
  job_.on_demand_usd_per_hour = on_demand.value_or(settings_.on_demand_usd_per_hour);
}

void LivePolicy::NoteSpeed(const PolicyFacts& facts) {
  const uint32_t present = facts.spot.present + facts.on_demand.present;
  if (present != whole_) {
    whole_ = present;
    whole_since_s_ = facts.now_s;
    return;
  }
  if (present > 0 && facts.now_s - whole_since_s_ >= settings_.settle_s) {
    speeds_.Note(present, facts.samples_per_s);
  }
  if (!speeds_.empty()) {
    speeds_.Fill(&job_.samples_per_s);
    job_.lost_s = settings_.step_samples / job_.samples_per_s[1];
  }
}

void LivePolicy::NoteInterval(double now_s, uint32_t available) {
  const double passed = interval_begun_s_ ? (now_s - *interval_begun_s_) / settings_.interval_s : 1;
  if (passed < 1) {
    return;
  }
  // Where nobody looked meanwhile, the count is taken to have been this one.
  const auto intervals = static_cast<size_t>(std::min(passed, double{kCountsMax}));
  std::vector<uint32_t>& counts = memory_.available;
  counts.insert(counts.end(), intervals, available);
  if (counts.size() > kCountsMax) {
    counts.erase(counts.begin(), counts.end() - kCountsMax);
  }
  // Looks come late, and intervals are to be no longer for that.
  interval_begun_s_ =
      interval_begun_s_ ? *interval_begun_s_ + std::floor(passed) * settings_.interval_s : now_s;
  has_interval_ = true;
}

/// Who starts machines knows of a limit only while more are asked for than can be had. It stands
/// until the one that is tried beyond it takes part.
uint32_t LivePolicy::Available(const PolicyFacts& facts) {
  if (facts.available) {
    return *facts.available;
  }
  if (facts.spot.waiting > 0) {
    limit_ = HeldOf(facts.spot);
  } else if (facts.spot.present >= facts.spot.wanted) {
    limit_.reset();
  }
  return limit_ ? std::max(*limit_, facts.spot.present) : machines_max_;
}

void LivePolicy::Remember(const FleetWish& fleet) {
  memory_.has_wanted = true;
  memory_.spot = fleet.spot;
  memory_.on_demand = fleet.on_demand;
}

proto::FleetDecision LivePolicy::WatchHand(const PolicyFacts& facts) {
  const FleetWish wanted = WantedOf(facts);
  const FleetWish asked = {.spot = memory_.spot, .on_demand = memory_.on_demand};
  if (!memory_.has_wanted || wanted == asked) {
    return {};
  }
  Remember(wanted);
  if (settings_.hand_s == 0) {
    return {};
  }
  memory_.hand_until_s = facts.now_s + settings_.hand_s;
  seen_.reset();
  return {
      .why = fmt::format(
          "{} leaves {} alone for {}, since somebody asked for that",
          settings_.policy,
          FleetText(wanted),
          FormatDuration(settings_.hand_s))};
}

proto::FleetDecision LivePolicy::Look(const proto::PolicyView& view) {
  // A job that waits for its first machine back is one to decide about.
  if (view.status.state != proto::RunState::kTraining &&
      view.status.state != proto::RunState::kWaiting) {
    return {};
  }
  memory_ = view.memory;
  memory_.has_wanted = memory_.has_wanted && !view.was_refused;
  PolicyFacts facts = PolicyFactsOf(view.status, types_);
  facts.available = view.available;
  job_.samples_wanted = facts.samples_total;
  NotePrices(view.prices);
  proto::FleetDecision decision = Decision(facts);
  if (memory_ != view.memory || !decision.why.empty()) {
    decision.memory = memory_;
  }
  return decision;
}

proto::FleetDecision LivePolicy::Decision(const PolicyFacts& facts) {
  const uint32_t available = Available(facts);
  NoteSpeed(facts);
  NoteInterval(facts.now_s, available);
  proto::FleetDecision of_hand = WatchHand(facts);
  if (!of_hand.why.empty() || facts.now_s < memory_.hand_until_s) {
    return of_hand;
  }
  const Seen seen = {available, facts.spot, facts.on_demand};
  if (IsSpeedMissing() || (!has_interval_ && seen_ == seen)) {
    return {};
  }
  seen_ = seen;
  return Decide(facts, available);
}

proto::FleetDecision LivePolicy::SayTrouble(const Status& why) {
  const std::string text(why.message());
  const bool is_news = std::exchange(said_trouble_, text) != text;
  return {.why = is_news ? "the fleet stays: " + text : ""};
}

proto::FleetDecision LivePolicy::Decide(const PolicyFacts& facts, uint32_t available) {
  const FleetWish wanted = WantedOf(facts);
  Remember(wanted);
  if (policy_ == nullptr) {
    auto made = provisioner::MakeFleetPolicy(settings_.policy, job_);
    if (!made.ok()) {
      has_interval_ = false;  // asked again after another one
      return SayTrouble(made.status());
    }
    policy_ = std::move(*made);
  }
  FleetWish fleet = policy_->Decide(
      {.now_s = facts.now_s,
       .is_interval = std::exchange(has_interval_, false),
       .counts = memory_.available,
       .available = available,
       .spot = HeldOf(facts.spot),
       .spot_working = facts.spot.present,
       .on_demand = HeldOf(facts.on_demand),
       .on_demand_working = facts.on_demand.present,
       .samples = facts.samples});
  const bool is_all = fleet.spot >= available && limit_ && !facts.available;
  if (is_all && fleet.spot < machines_max_) {
    ++fleet.spot;  // to see whether there are more again
  }
  if (fleet == wanted && said_available_ == available) {
    return {};
  }
  Remember(fleet);
  said_available_ = available;
  proto::FleetDecision decision;
  if (fleet != wanted) {
    decision.changes = ChangesFor(fleet, types_);
  }
  Explain(fleet, wanted, available, &decision);
  return decision;
}

void LivePolicy::Explain(
    const FleetWish& fleet,
    const FleetWish& before,
    uint32_t available,
    proto::FleetDecision* decision) const {
  const provisioner::PolicyReason reason = policy_->Explain();
  std::string& why = decision->why;
  why = settings_.policy;
  why += fleet == before ? " keeps " + FleetText(fleet)
                         : " wants " + FleetText(fleet) + " instead of " + FleetText(before);
  why += limit_ || available < machines_max_ ? fmt::format(", {} can be had", available)
                                             : std::string(", all that are needed can be had");
  why += ": " + reason.why + "; ";
  why += reason.forecast.empty() ? "no forecast" : "forecast" + NumbersText(reason.forecast);
  decision->others = reason.worth_of;
  std::string_view separator = " of ";
  for (const FleetAlternative& some : reason.alternatives) {
    decision->others += fmt::format("{}{}: {:.6g}", separator, FleetText(some.fleet), some.worth);
    separator = ", ";
  }
  why += "; " + decision->others;
}

}  // namespace ps::run
