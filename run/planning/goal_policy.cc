#include "run/planning/goal_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/profile/local_steps.h"
#include "provisioner/report/plan_report.h"
#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "run/planning/plan_from_run.h"
#include "run/planning/plan_request.h"
#include "run/planning/planning.h"
#include "run/planning/planning_files.h"
#include "run/planning/run_facts.h"

namespace ps::run {
namespace {

constexpr double kLooksPerChange = 4;  // at least
constexpr double kStepsSettled = 100;  // minibatches from which on a loss tells where the run is
constexpr uint64_t kReplanEffort = 20'000'000;

using Fleet = std::vector<provisioner::TypeCount>;

/// Ends a search that nobody waits for.
class EndingWatch final : public provisioner::SearchWatch {
 public:
  explicit EndingWatch(const std::function<bool()>& is_ending) : is_ending_(is_ending) {}

  bool GoesOn(const provisioner::SearchProgress& /*progress*/) override {
    return is_ending_ == nullptr || !is_ending_();
  }

 private:
  const std::function<bool()>& is_ending_;
};

/// The types of workers that the run can have more or fewer of.
std::vector<std::string> GroupTypes(const proto::JobConfig& config) {
  std::vector<std::string> types;
  for (const proto::WorkerGroup& group : config.workers) {
    if (std::ranges::count(types, group.type) == 0) {
      types.push_back(group.type);
    }
  }
  return types;
}

Fleet WantedFleet(const proto::JobStatus& status) {
  Fleet fleet;
  for (const proto::FleetRow& row : status.fleet) {
    fleet.push_back({row.type, static_cast<int>(row.wanted), 0});
  }
  return fleet;
}

Fleet FleetByType(const provisioner::PlanProblem& problem, const std::vector<int>& counts) {
  Fleet fleet;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto k = static_cast<size_t>(problem.offers[i].worker_class);
    const std::string& type = problem.speed->classes()[k].name;
    const auto same = std::ranges::find(fleet, type, &provisioner::TypeCount::instance_type);
    if (same != fleet.end()) {
      same->count += counts[i];
    } else if (counts[i] > 0) {
      fleet.push_back({type, counts[i], 0});
    }
  }
  return fleet;
}

/// What the speed of such a fleet is to be within.
provisioner::Range PredictedSpeed(
    const provisioner::PlanProblem& problem,
    double samples_per_s,
    const provisioner::FleetSize& size) {
  const proto::Estimate speed = provisioner::Interval(
      samples_per_s,
      provisioner::SpeedDeviation(problem, size),
      std::max(2 * problem.goal.confidence - 1, 0.0));
  return {speed.low, speed.high};
}

void SetBest(
    const provisioner::PlanProblem& problem,
    const provisioner::FleetChoice& best,
    provisioner::ReplanAnswer* answer) {
  answer->best = FleetByType(problem, best.counts);
  answer->best_usd = best.usd;
  answer->best_speed = PredictedSpeed(
      problem, best.speed.samples_per_s, {provisioner::WorkersOf(best.counts), best.server_hosts});
}

void JudgeWanted(
    const provisioner::PlanProblem& problem,
    const Fleet& wanted,
    int server_hosts,
    provisioner::ReplanAnswer* answer) {
  answer->wanted_usd = std::numeric_limits<double>::infinity();
  const auto counts = CountsByOffer(problem, wanted);
  if (!counts.ok() || provisioner::WorkersOf(*counts) == 0) {
    return;
  }
  provisioner::FleetJudge judge(problem);
  const provisioner::Verdict verdict = judge.Judge(*counts, 0, server_hosts);
  answer->speed =
      PredictedSpeed(problem, verdict.speed.samples_per_s, {verdict.workers, server_hosts});
  answer->wanted_usd = verdict.usd;
  answer->wanted_meets = judge.MeetsGoal(verdict);
}

struct Solved {
  Planning planning;
  provisioner::PlanAnswer answer;

  explicit Solved(const std::string& today) : planning(today) {}
};

Status SolveLeft(const PlanCommand& command, provisioner::SearchWatch* watch, Solved* solved) {
  Duration effort{};
  PS_TRY(PreparePlan(command, &solved->planning, &effort));
  solved->planning.problem.watch = watch;
  solved->planning.problem.effort_max = kReplanEffort;
  solved->planning.problem.answers_max = 1;
  PS_ASSIGN(solved->answer, SolvePlan(command, &solved->planning));
  return solved->answer.is_stopped ? Status::Cancelled("the run has ended") : Status::Ok();
}

uint64_t CatalogMark(const proto::GoalConfig& goal) {
  const Result<std::string> path = FindCatalog(goal.catalog);
  const Result<std::string> text = path.ok() ? ReadFile(*path) : Result<std::string>(path.status());
  return text.ok() ? Crc32c(std::as_bytes(std::span(text->data(), text->size()))) : 0;
}

}  // namespace

provisioner::ReplanSettings SettingsOf(const proto::GoalConfig& goal) {
  provisioner::ReplanSettings settings;
  // Where changes may follow each other fast, so do the questions that lead to them.
  settings.change_every_s = goal.change_every_s;
  settings.ask_every_s = std::min(settings.ask_every_s, settings.change_every_s);
  settings.patience_s = std::min(settings.patience_s, settings.change_every_s);
  return settings;
}

provisioner::ReplanFacts ReplanFactsOf(
    const proto::JobStatus& status, const proto::JobConfig& config) {
  provisioner::ReplanFacts facts;
  facts.now_s = status.elapsed_s;
  facts.has_loss =
      provisioner::MinibatchesCounted(status, config.train.local_steps) >= kStepsSettled &&
      status.train_loss > config.goal.loss;
  facts.wanted = WantedFleet(status);
  facts.present = FactsOf(status, config).held;
  facts.revocations = status.revocations_noticed + status.revocations_unnoticed;
  facts.samples_per_s = status.samples_per_s;
  return facts;
}

Result<provisioner::ReplanAnswer> AskPlanner(
    const proto::JobStatus& status,
    const proto::JobConfig& config,
    const std::vector<std::string>& servers,
    const std::string& today,
    provisioner::SearchWatch* watch,
    const std::vector<proto::MarketPrice>& prices) {
  const RunFacts facts = FactsOf(status, config);
  PlanCommand asked;
  asked.types = GroupTypes(config);
  asked.servers = servers;
  asked.servers_run = !servers.empty();
  asked.common.confidence = ConfidenceOf(config.goal);
  asked.common.prices = prices;
  PS_ASSIGN(PlanCommand command, FillFromFacts(asked, facts, config));
  command.measured = MeasuredSteps(status, config);
  Solved kept(today);
  PS_TRY(SolveLeft(command, watch, &kept));
  provisioner::ReplanAnswer answer;
  const std::vector<provisioner::ServerOffer>& hosts = kept.planning.problem.servers;
  const int count = hosts.size() == 1 ? hosts.front().hosts_min : facts.server_hosts;
  JudgeWanted(kept.planning.problem, WantedFleet(status), count, &answer);
  if (!kept.answer.best.empty()) {
    SetBest(kept.planning.problem, kept.answer.best.front(), &answer);
  } else {
    answer.infeasible = kept.answer.infeasible.reason;
  }
  // The planner keeps what is held. When that is in time, less of it may be, too.
  if (answer.wanted_meets && !command.held.empty()) {
    command.held.clear();
    command.has_takeover = false;
    Solved fewer(today);
    PS_TRY(SolveLeft(command, watch, &fewer));
    if (!fewer.answer.best.empty() &&
        (answer.best.empty() || fewer.answer.best.front().usd < answer.best_usd)) {
      SetBest(fewer.planning.problem, fewer.answer.best.front(), &answer);
      answer.infeasible.clear();
    }
  }
  return answer;
}

GoalPolicy::GoalPolicy(proto::JobConfig config, std::string today, std::vector<std::string> servers)
    : config_(std::move(config)),
      today_(std::move(today)),
      servers_(std::move(servers)),
      replanner_(SettingsOf(config_.goal)) {}

double GoalPolicy::look_every_s() const {
  return std::min(kLookSecondsMax, config_.goal.change_every_s / kLooksPerChange);
}

proto::FleetDecision GoalPolicy::Look(const proto::PolicyView& view) {
  if (view.status.state != proto::RunState::kTraining) {
    if (std::exchange(answer_, std::nullopt)) {
      replanner_.Drop();
    }
    return {};
  }
  provisioner::ReplanFacts facts = ReplanFactsOf(view.status, config_);
  facts.catalog = today_.empty() ? 0 : CatalogMark(config_.goal);
  facts.market = market_.Mark(view.prices);
  if (answer_) {
    return Decide(facts);
  }
  return replanner_.Look(facts) == provisioner::ReplanCause::kNone ? proto::FleetDecision()
                                                                   : Plan(view);
}

proto::FleetDecision GoalPolicy::Plan(const proto::PolicyView& view) {
  EndingWatch watch(view.is_ending);
  Result<provisioner::ReplanAnswer> answer =
      AskPlanner(view.status, config_, servers_, today_, &watch, view.prices);
  if (answer.ok()) {
    last_trouble_.clear();
    answer_ = std::move(answer).value();
    return {.wants_newer_view = true};  // planning took a while
  }
  replanner_.Drop();
  const std::string why(answer.status().message());
  const bool is_news = answer.status().code() != StatusCode::kCancelled && why != last_trouble_;
  last_trouble_ = is_news ? why : last_trouble_;
  return {.why = is_news ? "no plan for what is left: " + why : ""};
}

proto::FleetDecision GoalPolicy::Decide(const provisioner::ReplanFacts& facts) {
  provisioner::ReplanWish wish = replanner_.Decide(facts, *answer_);
  answer_.reset();
  proto::FleetDecision decision;
  decision.why = std::move(wish.why);
  for (const provisioner::TypeCount& some : wish.workers) {
    decision.changes.push_back({.type = some.instance_type, .count = some.count});
  }
  return decision;
}

}  // namespace ps::run
