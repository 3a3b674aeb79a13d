#include "provisioner/planner/replan.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr double kSpeedWaitsMax = 64;

int CountOfType(const std::vector<TypeCount>& fleet, const std::string& type) {
  int count = 0;
  for (const TypeCount& some : fleet) {
    count += some.instance_type == type ? some.count : 0;
  }
  return count;
}

bool IsSameFleet(const std::vector<TypeCount>& a, const std::vector<TypeCount>& b) {
  const auto has_all = [](const std::vector<TypeCount>& some, const std::vector<TypeCount>& other) {
    return std::ranges::all_of(some, [&](const TypeCount& count) {
      return CountOfType(some, count.instance_type) == CountOfType(other, count.instance_type);
    });
  };
  return has_all(a, b) && has_all(b, a);
}

std::string TextOf(const std::vector<TypeCount>& fleet) {
  std::string text;
  for (const TypeCount& some : fleet) {
    if (some.count > 0) {
      text += fmt::format(
          "{}{} {}", text.empty() ? "" : ", ", some.count, Printable(some.instance_type));
    }
  }
  return text.empty() ? "nobody" : text;
}

ReplanWish Stay(std::string why) {
  ReplanWish wish;
  wish.why = std::move(why);
  return wish;
}

}  // namespace

std::string_view ReplanCauseText(ReplanCause cause) {
  switch (cause) {
    case ReplanCause::kNone:
      break;
    case ReplanCause::kBegin:
      return "the run has begun";
    case ReplanCause::kRevoked:
      return "workers were revoked";
    case ReplanCause::kScaled:
      return "another fleet is wanted";
    case ReplanCause::kPrices:
      return "the catalog has changed";
    case ReplanCause::kMarket:
      return "prices of the market have moved";
    case ReplanCause::kSpeed:
      return "the speed is not as predicted";
  }
  return "";
}

void Replanner::Note(const ReplanFacts& facts) {
  ReplanCause cause = ReplanCause::kNone;
  if (has_seen_) {
    if (facts.revocations > revocations_) {
      cause = ReplanCause::kRevoked;
    } else if (!IsSameFleet(facts.wanted, wanted_)) {
      cause = ReplanCause::kScaled;
    } else if (facts.catalog != catalog_) {
      cause = ReplanCause::kPrices;
    } else if (facts.market != market_) {
      cause = ReplanCause::kMarket;
    }
    if (cause != ReplanCause::kNone) {
      speed_waits_ = 1;
    } else if (IsSpeedOff(facts)) {
      cause = ReplanCause::kSpeed;
    }
  }
  if (cause != ReplanCause::kNone && (cause_ == ReplanCause::kNone || cause < cause_)) {
    cause_ = cause;
  }
  has_seen_ = true;
  revocations_ = facts.revocations;
  wanted_ = facts.wanted;
  catalog_ = facts.catalog;
  market_ = facts.market;
}

bool Replanner::IsSpeedOff(const ReplanFacts& facts) {
  const bool is_off = speed_.high > 0 && IsSameFleet(facts.present, speed_of_) &&
                      facts.samples_per_s > 0 &&
                      (facts.samples_per_s < speed_.low || facts.samples_per_s > speed_.high);
  if (!is_off) {
    off_since_s_ = kNever;
    return false;
  }
  if (off_since_s_ == kNever) {
    off_since_s_ = facts.now_s;
  }
  if (facts.now_s - off_since_s_ < settings_.patience_s * speed_waits_) {
    return false;
  }
  speed_waits_ = std::min(2 * speed_waits_, kSpeedWaitsMax);
  speed_ = {};  // it is said once: the next answer predicts anew
  off_since_s_ = kNever;
  return true;
}

ReplanCause Replanner::Look(const ReplanFacts& facts) {
  if (!facts.has_loss) {
    return ReplanCause::kNone;
  }
  Note(facts);
  const bool is_due = facts.now_s - asked_s_ >= settings_.ask_every_s &&
                      facts.now_s - changed_s_ >= settings_.change_every_s;
  if (cause_ == ReplanCause::kNone || is_asking_ || !is_due) {
    return ReplanCause::kNone;
  }
  is_asking_ = true;
  asked_s_ = facts.now_s;
  return cause_;
}

ReplanWish Replanner::Decide(const ReplanFacts& facts, const ReplanAnswer& answer) {
  const std::string_view cause = ReplanCauseText(cause_);
  const std::string wanted = TextOf(facts.wanted);
  is_asking_ = false;
  if (!IsSameFleet(facts.wanted, wanted_)) {
    return Stay(fmt::format("{}, and meanwhile another fleet is wanted: asked again", cause));
  }
  cause_ = ReplanCause::kNone;
  speed_ = answer.speed;
  speed_of_ = facts.wanted;
  off_since_s_ = kNever;
  if (!answer.infeasible.empty()) {
    return Stay(fmt::format(
        "{}: {} stays, since no fleet meets the goal: {}", cause, wanted, answer.infeasible));
  }
  if (IsSameFleet(answer.best, facts.wanted)) {
    return Stay(fmt::format("{}: {} is still the cheapest that meets the goal", cause, wanted));
  }
  const double saved = 1 - answer.best_usd / answer.wanted_usd;
  if (answer.wanted_meets && saved < settings_.worthwhile) {
    return Stay(fmt::format(
        "{}: {} stays, {} would save only {:.1f} % of what is left to spend",
        cause,
        wanted,
        TextOf(answer.best),
        100 * std::max(saved, 0.0)));
  }
  changed_s_ = facts.now_s;
  wanted_ = answer.best;
  speed_ = answer.best_speed;
  speed_of_ = answer.best;
  ReplanWish wish{true, answer.best, {}};
  wish.why =
      answer.wanted_meets
          ? fmt::format(
                "{}: {} instead of {} meets the goal for {:.0f} % less",
                cause,
                TextOf(answer.best),
                wanted,
                100 * saved)
          : fmt::format("{}: {} meets the goal, {} does not", cause, TextOf(answer.best), wanted);
  // Types that are wanted no more are named, too.
  for (const TypeCount& some : facts.wanted) {
    if (CountOfType(answer.best, some.instance_type) == 0) {
      wish.workers.push_back({some.instance_type, 0, 0});
    }
  }
  return wish;
}

}  // namespace ps::provisioner
