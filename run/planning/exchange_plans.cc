#include "run/planning/exchange_plans.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/profile/exchange_penalty.h"
#include "provisioner/profile/local_steps.h"
#include "ps/base/text.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planned_exchange.h"

namespace ps::run {
namespace {

constexpr int kTried[] = {1, 2, 4, 8, 16, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000};
constexpr double kRounding = 1e-9;  // equal scores may differ by it

/// What the fleet gives by the objective, the less the better.
double ScoreOf(
    const PlanCommand& command, const Planning& planning, const provisioner::FleetChoice& choice) {
  const provisioner::PlanProblem& problem = planning.problem;
  proto::PlanRevocations expected;
  if (CountsRevocations(command)) {
    const auto known =
        provisioner::ExpectRevocations(planning.catalog, problem, choice, planning.outlook);
    expected = known.ok() ? *known : proto::PlanRevocations();
  }
  const auto either = [](double with, double without) { return with > 0 ? with : without; };
  switch (planning.objective) {
    case proto::Objective::kCost:
      return either(expected.usd, choice.usd);
    case proto::Objective::kTime: {
      const provisioner::FleetJudge judge(problem);
      return judge.SecondsAtConfidence(
          provisioner::TraitsOf(choice.speed, provisioner::WorkersOf(choice.counts)),
          choice.server_hosts,
          either(expected.seconds, choice.seconds),
          choice.start_s);
    }
    case proto::Objective::kThroughputPerHour:
      break;
  }
  return planning.input.models.exchange.samples /
         either(expected.samples_per_s, choice.speed.samples_per_s);
}

Status Solve(const PlanCommand& command, provisioner::SearchWatch* watch, ExchangePlan* plan) {
  plan->planning->problem.watch = watch;
  PS_ASSIGN(plan->answer, SolvePlan(command, plan->planning.get()));
  plan->score = plan->answer.best.empty()
                    ? std::numeric_limits<double>::infinity()
                    : ScoreOf(command, *plan->planning, plan->answer.best.front());
  return Status::Ok();
}

double BytesOf(const ExchangePlan& plan) {
  return plan.planning->models.push_bytes + plan.planning->models.pull_bytes;
}

/// Fewer local steps, then more bytes: nearer to what plain training does.
bool IsMilder(const ExchangePlan& a, const ExchangePlan& b) {
  const int a_steps = a.scheme().local_steps;
  const int b_steps = b.scheme().local_steps;
  return a_steps != b_steps ? a_steps < b_steps : BytesOf(a) > BytesOf(b);
}

void PutBestFirst(std::vector<ExchangePlan>* plans) {
  std::ranges::sort(*plans, [](const ExchangePlan& a, const ExchangePlan& b) {
    if (a.score != b.score) {
      return a.score < b.score;
    }
    // Without any fleet, the nearest goals are those of the rarest and smallest exchanges.
    return std::isinf(a.score) ? IsMilder(b, a) : IsMilder(a, b);
  });
  auto best = plans->begin();
  for (auto it = plans->begin(); it != plans->end(); ++it) {
    const bool is_equal = it->score <= plans->front().score * (1 + kRounding);
    if (is_equal && std::isfinite(it->score) && IsMilder(*it, *best)) {
      best = it;
    }
  }
  std::rotate(plans->begin(), best, best + 1);
}

std::string StepsText(const std::vector<int>& steps) {
  std::string text;
  for (const int some : steps) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", some);
  }
  return text;
}

/// "0.85 USD", "1h 02m", "412 samples/s"
std::string ScoreText(const Planning& planning, double score) {
  switch (planning.objective) {
    case proto::Objective::kCost:
      return FormatUsd(score) + " USD";
    case proto::Objective::kTime:
      return FormatDuration(score);
    case proto::Objective::kThroughputPerHour:
      break;
  }
  return FormatRate(1 / score) + " samples/s";
}

double ComputingOf(const ExchangePlan& plan) {
  return ComputingShare(plan.planning->problem, plan.answer.best.front());
}

/// Local steps up to the most that are asked for. Errors: kInvalidArgument.
Result<std::vector<int>> StepsToTry(const PlanCommand& command, const Planning& planning) {
  const int given = command.local_steps_max;
  const bool is_fixed = command.common.local_steps > 0;
  if (given < 0 || given > provisioner::kLocalStepsMax) {
    return Status::InvalidArgument(LocalStepsWanted("--local-steps-max"));
  }
  if (given > 0 && is_fixed) {
    return Status::InvalidArgument(
        "--local-steps-max lets a plan choose, and --local-steps says which: leave out one; a run "
        "keeps those that it has");
  }
  if (given > 0 && command.strategy != "exact") {
    return Status::InvalidArgument(fmt::format(
        "--local-steps-max is of the strategy exact; {} plans with those of the job",
        command.strategy));
  }
  const bool is_spotdnn = command.common.speed_model.starts_with("spotdnn");
  if (given > 0 && is_spotdnn) {
    return Status::InvalidArgument(fmt::format(
        "--local-steps-max needs the speed model queue: {} can't tell the speed of others than the "
        "profile's",
        command.common.speed_model));
  }
  const int own = planning.own.local_steps;
  if (is_fixed || command.strategy != "exact" || is_spotdnn) {
    return std::vector<int>{planning.scheme.local_steps};
  }
  const int most = std::min(given > 0 ? given : own, planning.local_steps_max);
  std::set<int> wanted(std::begin(kTried), std::end(kTried));
  wanted.insert({own, most});
  for (const proto::ExchangePenalty& penalty : planning.profile.penalties) {
    wanted.insert(penalty.local_steps);
  }
  return std::vector<int>(wanted.begin(), wanted.upper_bound(most));
}

/// Nothing is to be chosen between encodings, so their penalty may be unknown.
bool HasOnePair(const PlanCommand& command) {
  return command.pushes.size() <= 1 && command.pulls.size() <= 1;
}

bool IsKnown(
    const PlanCommand& command, const Planning& planning, const proto::ExchangeScheme& scheme) {
  const proto::JobProfile& profile = planning.profile;
  if (provisioner::PenaltyOf(profile, scheme, planning.mode)) {
    return true;
  }
  const bool has_own = scheme.push == planning.own.push && scheme.pull == planning.own.pull;
  const proto::ExchangeScheme only_steps = {scheme.local_steps, profile.push, profile.pull};
  return (has_own || HasOnePair(command)) &&
         (scheme.local_steps <= planning.own.local_steps ||
          provisioner::PenaltyOf(profile, only_steps, planning.mode));
}

/// Which exchanges are left out since their penalty is unknown, and how to measure it. Empty: none.
std::string LeftOutText(
    const Planning& planning,
    const std::vector<proto::ExchangeScheme>& known,
    const std::vector<proto::ExchangeScheme>& unknown) {
  std::set<int> steps;
  std::set<std::string> encodings;
  std::set<std::string> flags;
  for (const proto::ExchangeScheme& scheme : unknown) {
    const auto has_steps = [&](const auto& other) {
      return other.local_steps == scheme.local_steps;
    };
    const auto has_encodings = [&](const auto& other) {
      return other.push == scheme.push && other.pull == scheme.pull;
    };
    if (std::ranges::none_of(known, has_steps)) {
      steps.insert(scheme.local_steps);
    }
    if (std::ranges::none_of(known, has_encodings)) {
      encodings.insert(fmt::format("push {} with pull {}", scheme.push, scheme.pull));
      flags.insert(scheme.push == planning.profile.push ? "" : " --push " + scheme.push);
      flags.insert(scheme.pull == planning.profile.pull ? "" : " --pull " + scheme.pull);
    }
  }
  if (steps.empty() && encodings.empty()) {
    return "";
  }
  std::vector<std::string> what;
  if (!steps.empty()) {
    what.push_back("local steps " + StepsText({steps.begin(), steps.end()}));
    flags.insert(
        fmt::format(" --local-steps {},{}", planning.profile.local_steps, *steps.rbegin()));
  }
  what.insert(what.end(), encodings.begin(), encodings.end());
  std::string command = "psctl profile";
  for (const std::string& flag : flags) {
    command += flag;
  }
  return fmt::format(
      "{} were not looked at: what they cost in samples to a loss was not measured; {} measures it",
      Join(what),
      command);
}

}  // namespace

Result<PlanCommand> WithEncodingsGiven(PlanCommand command) {
  const auto given = [](const char* flag,
                        const std::string& text) -> Result<std::vector<std::string>> {
    return text.empty() ? std::vector<std::string>() : ParseEncodings(flag, {text});
  };
  PS_ASSIGN(command.pushes, given("--push", command.common.push));
  PS_ASSIGN(command.pulls, given("--pull", command.common.pull));
  if (!HasOnePair(command) && command.strategy != "exact") {
    return Status::InvalidArgument(fmt::format(
        "several encodings to choose among are of the strategy exact; {} plans with one each",
        command.strategy));
  }
  command.common.push = command.pushes.empty() ? "" : command.pushes.front();
  command.common.pull = command.pulls.empty() ? "" : command.pulls.front();
  return command;
}

Result<std::vector<proto::ExchangeScheme>> SchemesToTry(
    const PlanCommand& command, const Planning& planning, std::string* note) {
  PS_ASSIGN(const std::vector<int> steps, StepsToTry(command, planning));
  const auto either = [](const std::vector<std::string>& given, const std::string& otherwise) {
    return given.empty() ? std::vector<std::string>{otherwise} : given;
  };
  std::vector<proto::ExchangeScheme> known;
  std::vector<proto::ExchangeScheme> unknown;
  for (const std::string& push : either(command.pushes, planning.scheme.push)) {
    for (const std::string& pull : either(command.pulls, planning.scheme.pull)) {
      for (const int some : steps) {
        proto::ExchangeScheme scheme{some, push, pull};
        const bool is_alone = steps.size() == 1 && HasOnePair(command);
        (is_alone || IsKnown(command, planning, scheme) ? known : unknown)
            .push_back(std::move(scheme));
      }
    }
  }
  *note = LeftOutText(planning, known, unknown);
  if (known.empty()) {
    return Status::InvalidArgument("nothing is left to choose among: " + *note);
  }
  return known;
}

Result<std::vector<ExchangePlan>> SolveForExchange(
    const PlanCommand& command,
    std::unique_ptr<Planning> prepared,
    provisioner::SearchWatch* watch) {
  std::string note;
  PS_ASSIGN(
      const std::vector<proto::ExchangeScheme> schemes, SchemesToTry(command, *prepared, &note));
  const std::string today = prepared->today;
  std::vector<ExchangePlan> plans;
  for (const proto::ExchangeScheme& scheme : schemes) {
    ExchangePlan plan;
    if (prepared != nullptr && prepared->scheme == scheme) {
      plan.planning = std::move(prepared);
    } else {
      PlanCommand changed = command;
      changed.common.local_steps = scheme.local_steps;
      changed.common.push = scheme.push;
      changed.common.pull = scheme.pull;
      Duration effort{};
      plan.planning = std::make_unique<Planning>(today);
      PS_TRY(PreparePlan(changed, plan.planning.get(), &effort));
    }
    PS_TRY(Solve(command, watch, &plan));
    plans.push_back(std::move(plan));
  }
  auto certainty = proto::Certainty::kProven;
  bool is_stopped = false;
  for (const ExchangePlan& plan : plans) {
    // A search that was ended before it found a fleet says nothing.
    const bool is_open = plan.answer.best.empty() && plan.answer.is_stopped;
    certainty = std::min(certainty, is_open ? proto::Certainty::kBestFound : plan.answer.certainty);
    is_stopped = is_stopped || plan.answer.is_stopped;
  }
  PutBestFirst(&plans);
  ExchangePlan& best = plans.front();
  if (!best.answer.best.empty() && plans.size() > 1) {
    best.answer.certainty = std::min(best.answer.certainty, certainty);
    best.answer.is_stopped = is_stopped;
  }
  if (!note.empty()) {
    best.planning->notes.push_back(std::move(note));
  }
  return plans;
}

std::string ExchangeReason(const PlanCommand& command, const std::vector<ExchangePlan>& plans) {
  if (plans.size() < 2) {
    return "";
  }
  const ExchangePlan& best = plans.front();
  std::set<int> tried;
  for (const ExchangePlan& plan : plans) {
    tried.insert(plan.scheme().local_steps);
  }
  std::string text = fmt::format("local steps {}", best.scheme().local_steps);
  if (tried.size() > 1) {
    text += " of " + StepsText({tried.begin(), tried.end()});
  }
  if (!HasOnePair(command)) {
    text += fmt::format(
        ", push {} and pull {} of {} exchanges",
        best.scheme().push,
        best.scheme().pull,
        plans.size());
  }
  text += fmt::format(
      ": {}, workers compute {:.0f} % of the time",
      ScoreText(*best.planning, best.score),
      100 * ComputingOf(best));
  const ExchangePlan& next = plans[1];
  if (next.answer.best.empty()) {
    return text + "; no others meet the goal";
  }
  const bool has_same_encodings =
      next.scheme().push == best.scheme().push && next.scheme().pull == best.scheme().pull;
  text += fmt::format(
      "; next best {}: {}, {:.0f} %",
      has_same_encodings ? std::to_string(next.scheme().local_steps)
                         : proto::SchemeText(next.scheme(), best.scheme()),
      ScoreText(*next.planning, next.score),
      100 * ComputingOf(next));
  return text + (CountsRevocations(command) && best.planning->problem.local_steps > 1
                     ? "; a kill loses half a round"
                     : "");
}

}  // namespace ps::run
