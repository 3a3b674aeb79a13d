#include "ps/coordinator/workers/mode_desk.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/coordinator/state/servers_wanted.h"

namespace ps::coordinator {
namespace {

constexpr uint32_t kStalenessMax = 1000000;  // as train.staleness_max

}  // namespace

void ModeDesk::On(const Call& call, const proto::ModeRequest& message) {
  if (!job_->HasRole(call, proto::Role::kControl)) {
    return;
  }
  if (const Status status = CheckWanted(message.wanted); !status.ok()) {
    job_->Refuse(call, status.code(), std::string(status.message()));
    return;
  }
  Want(message.wanted);
  job_->edit.modes.is_policy_over = true;  // whoever asks knows better
  Advance(call);
  job_->Reply(call, proto::ModeReply{job_->ModesNow()});
}

Status ModeDesk::CheckWanted(const proto::ModeChoice& wanted) const {
  if (job_->state.phase >= JobPhase::kStopping) {
    return Status::InvalidArgument("the run is ending");
  }
  const bool is_ssp = wanted.mode == proto::Mode::kSsp;
  if (is_ssp ? wanted.staleness_max == 0 || wanted.staleness_max > kStalenessMax
             : wanted.staleness_max != 0) {
    return Status::InvalidArgument(
        is_ssp ? fmt::format(
                     "a staleness bound of {}; allowed: 1 to {}, or mode bsp",
                     wanted.staleness_max,
                     kStalenessMax)
               : "only ssp has a staleness bound");
  }
  const uint64_t workers = job_->WorkersToExpect();
  const uint64_t room = job_->RoundRoom(LargestBytesToCome(*job_));
  if (wanted.mode == proto::Mode::kBsp && job_->shards.are_all_ready() && workers > room) {
    return Status::InvalidArgument(fmt::format(
        "under bsp the shards have room for the gradients of {} workers, and {} are wanted or "
        "there; use more servers or fewer workers (psctl scale), or resume with a larger "
        "servers.queue_mib",
        room,
        workers));
  }
  return Status::Ok();
}

/// `policy_why`: why train.mode_policy wants it; empty: it was asked for.
void ModeDesk::Want(const proto::ModeChoice& wanted, const std::string& policy_why) {
  proto::ModesState& modes = job_->edit.modes;
  if (wanted == modes.wanted) {
    return;
  }
  const bool is_policy = !policy_why.empty();
  job_->events.Tell(
      proto::EventCode::kModeWanted,
      {{"mode", proto::ModeText(wanted)},
       {"mode_before", proto::ModeText(modes.in_force)},
       {"by", is_policy ? "train.mode_policy, " + policy_why : "request"}});
  modes.wanted = wanted;
  modes.is_wanted_by_policy = is_policy;
}

/// Sync-Switch: what a synchronous beginning gives is got by then, and the rest need not wait.
void ModeDesk::FollowPolicy(TimePoint now) {
  const proto::TrainConfig& train = job_->options.config.train;
  const proto::ModesState& modes = job_->state.modes;
  if (train.mode_policy == proto::ModePolicy::kFixed || modes.is_policy_over) {
    if (!modes.sit_outs.empty() && modes.wanted == modes.in_force) {
      sit_outs_.EndAll("train.mode_policy is over");
    }
    return;
  }
  const double due = double{train.switch_at} * static_cast<double>(job_->ledger.samples_total());
  if (static_cast<double>(job_->ledger.samples_counted()) >= due) {
    job_->edit.modes.is_policy_over = true;
    Want(
        {proto::Mode::kAsync, 0},
        fmt::format("{:.4g} % of the samples are done", 100 * train.switch_at));
  } else if (train.mode_policy == proto::ModePolicy::kSyncSwitchGreedy) {
    FollowStragglers(now);
  } else if (train.mode_policy == proto::ModePolicy::kSyncSwitchElastic && job_->is_bsp()) {
    sit_outs_.Follow(now);
  }
}

/// Sync-Switch's greedy policy: nobody waits for a straggler, and rounds go on when it is gone.
void ModeDesk::FollowStragglers(TimePoint now) {
  StragglerWatch& watch = job_->stragglers;
  watch.Look(now);
  const proto::ModeChoice wanted{
      watch.is_straggling() ? proto::Mode::kAsync : proto::Mode::kBsp, 0};
  if (wanted == job_->state.modes.wanted) {
    return;
  }
  if (!watch.is_straggling()) {
    if (CheckWanted(wanted).ok()) {  // the fleet may have outgrown what rounds have room for
      Want(wanted, "nobody straggles any more");
    }
    return;
  }
  const Member* const member = job_->membership.Find(watch.straggler());
  Want(
      wanted,
      member == nullptr ? "a worker straggles"
                        : fmt::format(
                              "worker {} straggles: a round would take {:.1f} times as long as "
                              "without that",
                              member->record->seat.value,
                              watch.slowdown()));
}

/// Nothing else that holds leases, or that depends on the mode, is under way. A shard that missed
/// the mode between two of bsp would miss the number of the rounds, too.
bool ModeDesk::MayBegin() const {
  return job_->membership.IsAcknowledged(job_->state.modes.since) &&
         job_->state.handovers.empty() && !job_->state.servers.chunks &&
         job_->shards.are_all_ready() && !checkpoints_->is_open();
}

void ModeDesk::Advance(const Call& call) {
  if (job_->state.phase != JobPhase::kTraining) {
    return;
  }
  FollowPolicy(call.now);
  const proto::ModesState& modes = job_->state.modes;
  if (modes.wanted == modes.in_force) {
    if (modes.is_holding && job_->membership.IsAcknowledged(modes.since)) {
      job_->edit.modes.is_holding = false;
    }
    return;
  }
  if (!MayBegin()) {
    return;
  }
  job_->edit.modes.is_holding = true;
  if (job_->is_idle() && !job_->membership.has_unresolved()) {
    Switch(call);
  }
}

void ModeDesk::Switch(const Call& call) {
  proto::ModesState& modes = job_->edit.modes;
  job_->events.Tell(
      proto::EventCode::kModeSwitched,
      {{"mode", proto::ModeText(modes.wanted)},
       {"mode_before", proto::ModeText(modes.in_force)},
       {"by", modes.is_wanted_by_policy ? "train.mode_policy" : "request"},
       {"samples_counted", job_->ledger.samples_counted()}});
  sit_outs_.EndAll("there are no rounds any more");
  if (modes.wanted.mode == proto::Mode::kBsp) {
    job_->rounds.Skip();  // a worker that got no lease meanwhile still has those of the last round
  }
  modes.in_force = modes.wanted;
  // Under ssp a member counts for the bound when it gets its first lease.
  job_->membership.SetAllActive(!job_->is_ssp());
  modes.since = job_->membership.generation();
  const double at_s = job_->training_began ? Seconds(call.now - *job_->training_began) : 0;
  modes.switches.push_back(
      {modes.in_force, at_s, job_->ledger.samples_counted(), modes.is_wanted_by_policy});
  if (modes.switches.size() > kModeSwitchesMax) {
    modes.switches.erase(modes.switches.begin());
  }
  leases_->TrackAll();
}

}  // namespace ps::coordinator
