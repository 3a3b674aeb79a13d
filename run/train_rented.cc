// What a run does about the machines that it rents: their money, pools that are left, the end.

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "ps/base/text.h"
#include "run/train_run.h"

namespace ps::run {
namespace {

/// To end a step and hand over, where nobody takes the machine back.
constexpr uint32_t kMoveGraceMs = 30'000;

}  // namespace

void TrainRun::NoteRented() {
  const provisioner::RentalDesk::Summary now = rented_->summary();
  host_.NoteRented(now.usd, now.usd_per_hour, rented_->worker_usd_per_hour());
}

void TrainRun::CheckBudget() {
  if (rented_ == nullptr) {
    return;
  }
  NoteRented();
  const coordinator::CoordinatorCore& core = host_.core();
  const std::string why =
      rented_->WhyEnd({core.traffic_usd(), core.TrafficUsdPerHour(SystemTime().Now())});
  if (!why.empty() && !host_.is_stopping()) {
    host_.Tell(proto::EventCode::kBudgetSpent, {{"why", why}});
    progress_.Say(why + "; ending");
    host_.RequestStop(why, false);  // an evaluation would cost what there is not
    return;
  }
  LeavePool();
}

/// When a pool is left: the worker hands over, its machine goes back, another one is rented.
void TrainRun::LeavePool() {
  const std::optional<provisioner::RentalMove> move =
      host_.is_stopping() ? std::nullopt : rented_->TakeMove();
  if (!move) {
    return;
  }
  proto::NoticeRequest notice;
  notice.worker = WorkerId(move->seat.index);
  notice.grace_ms = kMoveGraceMs;
  const proto::Message answer = host_.Ask(notice);
  if (std::holds_alternative<proto::NoticeReply>(answer)) {
    const std::string why = fmt::format(
        "worker {} leaves machine {} for one of another pool: {}",
        move->seat.index,
        move->machine,
        move->why);
    host_.Tell(
        proto::EventCode::kPolicy, {{"why", why}, {"by", "launch.rent.leave_above"}}, move->others);
    progress_.Say(why);
  }
}

void TrainRun::TellOfMachinesLeft() {
  if (rented_ == nullptr) {
    return;
  }
  if (const size_t machines = rented_->summary().machines; machines > 0) {
    progress_.Say("giving back " + Plural(machines, "machine") + ", for 3 minutes at most");
  }
  rented_->GiveBackNow();
  NoteRented();
  const size_t left = rented_->left();
  if (left > 0) {
    const std::string problem = rented_->summary().problem;
    const std::string why =
        (problem.empty() ? "the provider does not say that they are gone" : problem) +
        "; see psctl cloud list, and end them by psctl cloud sweep";
    host_.Tell(proto::EventCode::kMachinesLeft, {{"machines", left}, {"why", why}});
    progress_.Say(fmt::format(
        "{} may still cost, or {}: {}",
        Plural(left, "machine"),
        left == 1 ? "its disk" : "their disks",
        why));
  }
}

}  // namespace ps::run
