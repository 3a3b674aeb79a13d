#include "run/planning/replanning.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/report/plan_report.h"
#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "run/directory/control.h"
#include "run/planning/plan_from_run.h"
#include "run/planning/plan_request.h"
#include "run/planning/planning.h"
#include "run/planning/planning_files.h"
#include "run/planning/run_facts.h"

namespace ps::run {
namespace {

constexpr double kReplanLookSeconds = 2;
constexpr double kLooksPerChange = 4;       // at least
constexpr double kSecondsPerWorker = 2e-3;  // a status has a row for each
constexpr uint64_t kStepsSettled = 100;     // from which on a loss tells where the run is
constexpr uint64_t kReplanEffort = 20'000'000;

using Fleet = std::vector<provisioner::TypeCount>;

/// Ends a search with the thread that it is made on.
class EndingWatch final : public provisioner::SearchWatch {
 public:
  explicit EndingWatch(RequestThread<int>* thread) : thread_(thread) {}

  bool GoesOn(const provisioner::SearchProgress& /*progress*/) override {
    goes_on_ = goes_on_ && thread_->PauseUnlessEnding(Duration::zero());
    return goes_on_;
  }

 private:
  RequestThread<int>* const thread_;
  bool goes_on_ = true;
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
  answer->wanted_meets = judge.MeetsGoal(verdict, judge.IsHeld(*counts));
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
  facts.has_loss = status.steps_counted >= kStepsSettled && status.train_loss > config.goal.loss;
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
    provisioner::SearchWatch* watch) {
  const RunFacts facts = FactsOf(status, config);
  PlanCommand asked;
  asked.types = GroupTypes(config);
  asked.servers = servers;
  asked.common.confidence = config.goal.confidence;
  PS_ASSIGN(PlanCommand command, FillFromFacts(asked, facts, config));
  command.measured = MeasuredSteps(status, config);
  Solved kept(today);
  PS_TRY(SolveLeft(command, watch, &kept));
  provisioner::ReplanAnswer answer;
  JudgeWanted(kept.planning.problem, WantedFleet(status), facts.server_hosts, &answer);
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

Replanning::Replanning(RunPaths run, proto::JobConfig config, std::string today, const Logger* log)
    : run_(std::move(run)),
      config_(std::move(config)),
      today_(std::move(today)),
      log_(log),
      replanner_(SettingsOf(config_.goal)),
      thread_([this](int) { Look(); }) {
  thread_.Add(0);
}

void Replanning::Look() {
  const double every_s =
      std::min(kReplanLookSeconds, config_.goal.change_every_s / kLooksPerChange);
  double pause_s = every_s;
  while (thread_.PauseUnlessEnding(FromSeconds(pause_s))) {
    const Result<proto::JobStatus> status = FetchStatus(run_);
    if (!status.ok() || status->state != "training") {
      continue;
    }
    pause_s = every_s + kSecondsPerWorker * static_cast<double>(status->workers.size());
    const provisioner::ReplanFacts facts = FactsFor(*status);
    if (replanner_.Look(facts) != provisioner::ReplanCause::kNone) {
      Plan(*status);
    }
  }
}

provisioner::ReplanFacts Replanning::FactsFor(const proto::JobStatus& status) const {
  provisioner::ReplanFacts facts = ReplanFactsOf(status, config_);
  facts.catalog = CatalogMark(config_.goal);
  return facts;
}

void Replanning::Plan(const proto::JobStatus& status) {
  EndingWatch watch(&thread_);
  const Result<provisioner::ReplanAnswer> answer = AskPlanner(status, config_, {}, today_, &watch);
  if (!answer.ok()) {
    replanner_.Drop();
    const std::string why(answer.status().message());
    if (answer.status().code() != StatusCode::kCancelled && why != last_trouble_) {
      last_trouble_ = why;
      log_->Warning("replan_failed", {{"why", why}});
      lines_.Say("no plan for what is left: " + why);
    }
    return;
  }
  last_trouble_.clear();
  const Result<proto::JobStatus> now = FetchStatus(run_);  // planning took a while
  if (!now.ok()) {
    replanner_.Drop();
    return;
  }
  const provisioner::ReplanWish wish = replanner_.Decide(FactsFor(*now), *answer);
  log_->Info("replan", {{"changes", wish.has_change}, {"why", wish.why}});
  lines_.Say("plan: " + wish.why);
  if (!wish.has_change) {
    return;
  }
  std::vector<proto::ScaleChange> changes;
  for (const provisioner::TypeCount& some : wish.workers) {
    proto::ScaleChange change;
    change.type = some.instance_type;
    change.count = some.count;
    changes.push_back(std::move(change));
  }
  if (const auto fleet = AskToScale(run_, changes, Asker::kPlan); !fleet.ok()) {
    log_->Warning("replan_refused", {{"why", fleet.status()}});
    lines_.Say("the plan was refused: " + std::string(fleet.status().message()));
  }
}

}  // namespace ps::run
