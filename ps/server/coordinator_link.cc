#include "ps/server/coordinator_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ps::server {

CoordinatorLink::CoordinatorLink(proto::RegisterShard self, const Life& life, const Logger& log)
    : self_(std::move(self)), life_(life), log_(log) {}

void CoordinatorLink::OnConnected(
    proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out) {
  if (term < term_) {
    log_.Error("coordinator_of_earlier_term", {{"term", term}, {"known", term_}});
    out->Close(peer);
    return;
  }
  term_ = term;
  peer_ = peer;
  silence_.Heard(now);
  is_registered_ = false;
  RestartHeartbeats(now);
  Register(now, out);
}

void CoordinatorLink::OnClosed(TimePoint now) {
  peer_ = proto::PeerId();
  silence_.Heard(now);
}

void CoordinatorLink::Register(TimePoint now, proto::Outbox* out) {
  // Small and idempotent, and until it is through the coordinator counts this shard as silent.
  next_register_ = now + life_.settings.timing.retry_first;
  proto::RegisterShard registration = self_;
  registration.life = life_.number;
  Ask(std::move(registration), out);
}

Status CoordinatorLink::Weigh(const proto::Refusal& refusal) {
  switch (refusal.code) {
    case StatusCode::kUnavailable:
    case StatusCode::kOverloaded:
    case StatusCode::kDeadlineExceeded:
      return Status::Ok();
    default:
      return Status(refusal.code, refusal.message).Annotate("refused by the coordinator");
  }
}

void CoordinatorLink::OnNotice(
    TimePoint due, const std::string& what, TimePoint now, proto::Outbox* out) {
  if (!notice_ || due < notice_->due) {
    log_.Info("notice", {{"reason", what}, {"grace_s", Seconds(due - now)}});
    notice_ = Notice{due, what, false, now};
    SendNotice(now, out);
  }
}

void CoordinatorLink::OnNoticeKnown() {
  if (notice_) {
    notice_->is_known = true;
  }
}

void CoordinatorLink::SendNotice(TimePoint now, proto::Outbox* out) {
  if (!notice_ || notice_->is_known || !is_registered_ || !is_connected() ||
      now < notice_->next_try) {
    return;
  }
  notice_->next_try = now + life_.settings.timing.retry_first;
  const auto left_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(notice_->due - now).count();
  Ask(
      proto::ServerNotice{
          life_.shard,
          static_cast<uint32_t>(std::clamp<int64_t>(left_ms, 0, UINT32_MAX)),
          notice_->what},
      out);
}

Duration CoordinatorLink::NoteTick(TimePoint now) {
  const Duration pause = silence_.Tick(now, life_.settings.timing.heartbeat * 2);
  if (pause > Duration()) {
    log_.Warning("shard_stalled", {{"seconds", Seconds(pause)}});
  }
  return pause;
}

Status CoordinatorLink::CheckSilence(TimePoint now) const {
  if (!silence_.IsTooLong(now, is_connected(), life_.settings.timing)) {
    return Status::Ok();
  }
  return Status::Unavailable(fmt::format(
      "the coordinator is {} for {:.1f} s",
      is_connected() ? "silent" : "gone",
      Seconds(silence_.Of(now))));
}

void CoordinatorLink::Repeat(TimePoint now, proto::Outbox* out) {
  if (!is_registered_ && now >= next_register_) {
    Register(now, out);
  }
  SendNotice(now, out);
}

bool CoordinatorLink::IsHeartbeatDue(TimePoint now) {
  if (now < next_heartbeat_) {
    return false;
  }
  RestartHeartbeats(now);
  return true;
}

void CoordinatorLink::RestartHeartbeats(TimePoint now) {
  next_heartbeat_ = now + life_.settings.timing.heartbeat;
}

}  // namespace ps::server
