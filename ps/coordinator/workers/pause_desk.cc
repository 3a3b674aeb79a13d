#include "ps/coordinator/workers/pause_desk.h"

#include <algorithm>
#include <chrono>

namespace ps::coordinator {
namespace {

/// A worker whose replacement is on its way is not worth a checkpoint.
constexpr Duration kParkAfter = std::chrono::seconds(10);

/// Servers that are to end before that wait for the checkpoint.
Duration ParkAfter(const proto::FleetConfig& fleet) {
  const Duration servers = FromSeconds(static_cast<double>(fleet.park_servers_after_s));
  return servers == Duration::zero() ? kParkAfter : std::min(kParkAfter, servers);
}

}  // namespace

void PauseDesk::On(const Call& call, const proto::PauseRequest& message) {
  if (!job_->HasRole(call, proto::Role::kControl)) {
    return;
  }
  if (job_->state.phase >= JobPhase::kStopping) {
    job_->Refuse(call, StatusCode::kInvalidArgument, "the run is ending");
    return;
  }
  if (message.is_paused != job_->state.pause.is_on) {
    job_->edit.pause = {message.is_paused, 0};
    job_->events.Tell(
        message.is_paused ? proto::EventCode::kPaused : proto::EventCode::kContinued,
        {{"samples_counted", job_->ledger.samples_counted()}});
  }
  job_->Reply(call, proto::PauseReply{});
}

bool PauseDesk::IsParked(TimePoint now) const {
  return job_->state.phase == JobPhase::kTraining && job_->training_began &&
         job_->membership.members().empty() &&
         now - job_->no_worker_since >= ParkAfter(job_->options.config.fleet);
}

void PauseDesk::OnTick(const Call& call) {
  const proto::PauseRecord& pause = job_->state.pause;
  if (!pause.is_on && !IsParked(call.now)) {
    if (pause.checkpoint != 0) {
      job_->edit.pause.checkpoint = 0;  // there is something new from now on
    }
    return;
  }
  if (!checkpoints_->is_on() || !job_->is_idle()) {
    return;
  }
  const bool is_made =
      pause.checkpoint != 0 && (job_->state.checkpoints.newest().checkpoint >= pause.checkpoint ||
                                checkpoints_->IsOpen(pause.checkpoint));
  if (!is_made) {
    job_->edit.pause.checkpoint = checkpoints_->OpenNow(call);
  }
}

}  // namespace ps::coordinator
