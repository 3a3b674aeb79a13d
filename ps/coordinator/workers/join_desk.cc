#include "ps/coordinator/workers/join_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ps/proto/move_limits.h"

namespace ps::coordinator {
namespace {

constexpr float kSlowdownMax = 1e4F;

/// Limit on the join replies of one event, which wait in memory for their connections: so many
/// bytes, or kRepliesMin replies where each is large.
constexpr uint64_t kReplyBytesMax = uint64_t{64} << 20;
constexpr uint64_t kRepliesMin = 16;

bool IsSane(const proto::JoinRequest& request) {
  const bool names_seat = request.has_seat || request.is_returning;
  const bool is_seat_ok = !names_seat || request.seat.value < kSeatsMax;
  const bool is_slowdown_ok =
      request.slowdown == 0 || (request.slowdown >= 1 && request.slowdown <= kSlowdownMax);
  return is_seat_ok && is_slowdown_ok && request.minibatch <= proto::kStepSamplesMax;
}

/// "its training labels differ", "it has 100 test samples and not 200": what `own` has and `run`
/// has not. Of other samples all bytes differ, so they are named only where the numbers are equal.
/// With a tokenizer the checksums of labels are its.
std::string DifferencesOf(
    const proto::DatasetFingerprint& own,
    const proto::DatasetFingerprint& run,
    const proto::DataConfig& data) {
  const auto shape = [](const proto::DatasetFingerprint& print) {
    return fmt::format("{} x {} x {}", print.channels, print.height, print.width);
  };
  std::string text;
  const auto add = [&text](const std::string& difference) {
    text += (text.empty() ? "" : ", ") + difference;
  };
  const auto add_count = [&add](const char* what, uint64_t of_own, uint64_t of_run) {
    if (of_own != of_run) {
      add(fmt::format("it has {} {} and not {}", of_own, what, of_run));
    }
  };
  if (shape(own) != shape(run)) {
    add(fmt::format("its images are {} and not {}", shape(own), shape(run)));
  }
  add_count("classes", own.classes, run.classes);
  add_count("training samples", own.train_count, run.train_count);
  add_count("test samples", own.test_count, run.test_count);
  if (!text.empty()) {
    return text;
  }
  const auto add_bytes = [&add](const std::string& what, uint32_t of_own, uint32_t of_run) {
    if (of_own != of_run) {
      add(fmt::format("its {} differ (CRC {:08x} and not {:08x})", what, of_own, of_run));
    }
  };
  if (!data.tokenizer.empty() && own.train_labels_crc != run.train_labels_crc) {
    return fmt::format(
        "its tokenizer is another one (CRC {:08x} and not {:08x})",
        own.train_labels_crc,
        run.train_labels_crc);
  }
  add_bytes("training images", own.train_images_crc, run.train_images_crc);
  add_bytes("training labels", own.train_labels_crc, run.train_labels_crc);
  // With a part for validation the sums of the tests are of both.
  const std::string tests = data.validation.empty() ? "test" : "test or validation";
  add_bytes(tests + " images", own.test_images_crc, run.test_images_crc);
  add_bytes(tests + " labels", own.test_labels_crc, run.test_labels_crc);
  return text;
}

/// What to do about data of a worker that are not the run's.
std::string DataRemedy(const proto::JobConfig& config, WorkerId seat) {
  const proto::DataConfig& data = config.data;
  if (!config.worker.program.empty()) {
    return fmt::format("have worker.program read the same data on worker {}", seat.value);
  }
  const std::string tokenizer =
      data.tokenizer.empty() ? "" : ", and data.tokenizer, " + data.tokenizer;
  if (data.directory.find("://") != std::string::npos) {
    return fmt::format(
        "what worker {} found in data.directory, {}{}, has changed: put back what was there",
        seat.value,
        data.directory,
        tokenizer);
  }
  return fmt::format(
      "give worker {} the same files in data.directory, {}{}",
      seat.value,
      data.directory,
      tokenizer);
}

}  // namespace

void JoinDesk::OnReconnected(const Call& call, Incarnation incarnation) {
  Member* const member = job_->membership.Find(incarnation);
  if (member == nullptr || !member->record->is_admitted) {
    return;  // fenced meanwhile; what it sends is refused
  }
  if (member->peer != proto::PeerId()) {
    job_->ClosePeer(member->peer, call);
  }
  member->peer = call.from;
  member->last_heard = call.now;
  job_->events.Tell(proto::EventCode::kWorkerReconnected, {{"worker", member->record->seat.value}});
}

void JoinDesk::OnClosed(proto::PeerId peer, Incarnation incarnation, const Call& call) {
  pending_.erase(peer);
  Member* const member = job_->membership.Find(incarnation);
  if (member == nullptr || member->peer != peer) {
    return;
  }
  member->peer = proto::PeerId();
  member->last_heard = call.now;
  if (!member->record->is_admitted) {
    LoseJoining(incarnation, call);
  }
}

/// It does not know its incarnation and comes back without one. Whoever takes the next seat that is
/// free is not to have this one, and be displaced then.
void JoinDesk::LoseJoining(Incarnation incarnation, const Call& call) {
  const MemberRecord record = *job_->membership.Find(incarnation)->record;
  departures_->Remove(incarnation, LeaveKind::kLeft, "disconnected while joining", call);
  job_->seats.ExpectBack(record.seat);
  kept_seats_[record.seat] = {record.process(), call.now + job_->timing.detect};
}

/// Those that were kept for long enough, and those of the process that asks, if any.
void JoinDesk::FreeKeptSeats(const proto::JoinRequest* request, TimePoint now) {
  for (auto it = kept_seats_.begin(); it != kept_seats_.end();) {
    const auto& [seat, kept] = *it;
    const bool is_its_own =
        request != nullptr && kept.process.is_known() && kept.process == request->process();
    if (!is_its_own && now < kept.until) {
      ++it;
      continue;
    }
    if (job_->membership.FindSeat(seat) == nullptr) {
      job_->seats.StopExpecting(seat);
    }
    it = kept_seats_.erase(it);
  }
}

void JoinDesk::On(const Call& call, const proto::JoinRequest& message) {
  if (!job_->HasRole(call, proto::Role::kWorker)) {
    return;
  }
  if (!IsSane(message)) {
    job_->Refuse(
        call,
        StatusCode::kInvalidArgument,
        fmt::format(
            "a seat is below {}, a slowdown 0 or at least 1, and a minibatch at most {}",
            kSeatsMax,
            proto::kStepSamplesMax));
    return;
  }
  const Incarnation incarnation = job_->peers.At(call.from).incarnation;
  if (incarnation == Incarnation()) {
    pending_[call.from] = {message, call.request_id};
    return;
  }
  Member* const member = job_->membership.Find(incarnation);
  if (member == nullptr) {
    job_->Refuse(
        call, StatusCode::kStale, "this connection's worker is fenced; connect again to join");
  } else if (member->peer == call.from) {
    member->join_request_id = call.request_id;
    member->last_heard = call.now;
    if (member->record->is_admitted) {
      SendReply(*member, call);
    }
  }
}

void JoinDesk::OnRefusal(const Call& call, const proto::Refusal& message) {
  const Incarnation incarnation = job_->peers.At(call.from).incarnation;
  const Member* const member = job_->membership.Find(incarnation);
  if (member != nullptr && member->peer == call.from) {
    const bool has_worked = member->record->last_grant.lease != LeaseId();
    if (message.code == StatusCode::kCorruption && has_worked) {
      job_->bad_data.Note(member->record->seat, message.message);
    }
    // A program that raised in one of its steps may do better in its successor.
    if (job_->options.config.worker.program.empty()) {
      departures_->RemoveRefused(incarnation, message.message, call);
    } else {
      departures_->RemoveFailed(incarnation, message.message, call);
    }
  }
}

bool JoinDesk::TakesData(const Call& call, const proto::LeaseRequest& message) {
  Member* const member = job_->membership.Find(message.incarnation);
  if (member == nullptr || member->peer != call.from || !member->record->is_admitted) {
    return true;
  }
  const auto refuse = [&](const std::string& why) {
    job_->Refuse(call, StatusCode::kInvalidArgument, why);
    departures_->RemoveFailed(message.incarnation, why, call);
    return false;
  };
  if (!message.device.empty() && message.device != member->record->device) {
    job_->membership.Edit(*member).device = message.device;
  }
  const WorkerId seat = member->record->seat;
  if (const uint32_t frozen = job_->state.frozen_crc;
      frozen != 0 && message.frozen_crc != 0 && message.frozen_crc != frozen) {
    return refuse(fmt::format(
        "its values of what nobody trains are not those of the run (CRC {:08x} and not {:08x}), so "
        "its gradients would be of another model; have worker.program load the same files on "
        "worker {}, and make its worker after that (where values are drawn: with the same seed)",
        message.frozen_crc,
        frozen,
        seat.value));
  }
  std::optional<proto::RunData>& run = job_->edit.data;
  if (!run) {
    run = {message.data, seat};
  }
  if (run->fingerprint == message.data) {
    return true;
  }
  const proto::DataConfig& data = job_->options.config.data;
  const std::string why = fmt::format(
      "its data is not that of worker {}, the first of {}: {}; {}",
      run->worker.value,
      job_->options.resume ? "this run or of the one that it was resumed from" : "this run",
      DifferencesOf(message.data, run->fingerprint, data),
      DataRemedy(job_->options.config, seat));
  return refuse(why);
}

Status JoinDesk::AdmitPending(const Call& call) {
  FreeKeptSeats(nullptr, call.now);
  if (job_->state.phase == JobPhase::kStopping || !job_->shards.are_all_ready() ||
      pending_.empty()) {
    return Status::Ok();
  }
  if (job_->state.phase == JobPhase::kStarting && job_->seats.initial() > job_->MembersMax()) {
    return Status::InvalidArgument(fmt::format(
        "under bsp the shards have room for the gradients of {} workers, and the job has {}; "
        "raise servers.queue_mib or use more shards",
        job_->MembersMax(),
        job_->seats.initial()));
  }
  for (const auto& [peer, join] : std::exchange(pending_, {})) {
    Admit({peer, join.request_id, call.now, call.out}, join.request);
  }
  return Status::Ok();
}

/// The seat asked for, or the lowest one that nobody holds or is expected in. A holder of the seat
/// that was asked for is fenced: the fleet gives a seat to one launch at a time, so it is gone.
std::optional<WorkerId> JoinDesk::ChooseSeat(const proto::JoinRequest& request, const Call& call) {
  if (request.is_returning) {
    return SeatOfReturning(request, call);
  }
  if (request.has_seat) {
    job_->seats.Open(request.seat);
    if (const Member* const holder = job_->membership.FindSeat(request.seat); holder != nullptr) {
      const Incarnation incarnation = holder->record->incarnation;
      if (holder->record->is_heard) {
        departures_->RemoveLost(incarnation, "its seat was taken by a new process", call);
      } else {
        departures_->Remove(incarnation, LeaveKind::kLeft, "joined anew", call);
      }
    }
    return request.seat;
  }
  // One that lost its connection before the answer came asks again, as the same process.
  const proto::ProcessId process = request.process();
  if (const Member* const same =
          process.is_known() ? job_->membership.FindProcess(process) : nullptr;
      same != nullptr) {
    const WorkerId seat = same->record->seat;
    departures_->Remove(same->record->incarnation, LeaveKind::kLeft, "joined anew", call);
    return seat;
  }
  if (const std::optional<WorkerId> vacant = job_->seats.Vacant(); vacant) {
    return vacant;
  }
  return FreshSeat();
}

/// Its own seat, unless another has it by now. It takes no seat that stands for another worker:
/// notices, planned disturbances and logs mean that one.
std::optional<WorkerId> JoinDesk::SeatOfReturning(
    const proto::JoinRequest& request, const Call& call) {
  const Member* const holder = job_->membership.FindSeat(request.seat);
  const proto::ProcessId process = request.process();
  if (holder != nullptr && process.is_known() &&
      holder->record->process() == process) {  // it lost its connection before the answer came
    departures_->Remove(holder->record->incarnation, LeaveKind::kLeft, "joined anew", call);
    return request.seat;
  }
  // After the job has gone back a seat is kept for the process that had it.
  const bool is_kept = job_->state.phase == JobPhase::kStarting && job_->training_began &&
                       holder == nullptr && job_->seats.IsExpected(request.seat);
  if (is_kept || job_->seats.IsVacant(request.seat)) {
    return request.seat;
  }
  if (job_->peers.OwnSeatOf(call.from)) {
    return std::nullopt;  // its token is for no other
  }
  const std::optional<WorkerId> fresh = FreshSeat();
  return fresh ? fresh : job_->seats.Vacant();
}

std::optional<WorkerId> JoinDesk::FreshSeat() {
  if (job_->seats.size() >= job_->options.seats_max) {
    return std::nullopt;
  }
  const WorkerId seat(job_->seats.size());
  job_->seats.Open(seat);
  return seat;
}

Status JoinDesk::MayAsk(const proto::JoinRequest& request, const Call& call) const {
  const std::optional<WorkerId> own_seat = job_->peers.OwnSeatOf(call.from);
  if (own_seat && (request.seat != *own_seat || !(request.has_seat || request.is_returning))) {
    return Status::InvalidArgument(OtherSeatText(*own_seat));
  }
  if (!request.has_seat || request.is_returning) {
    return Status::Ok();
  }
  return MayTakeSeat(request);
}

/// Somebody else may have the seat by now of a process that is killed, has ended, or was replaced:
/// what it asked before may come late. Of two processes that a launcher has made of one start the
/// second one waits until the first one is gone.
Status JoinDesk::MayTakeSeat(const proto::JoinRequest& request) const {
  if (job_->seats.IsCancelled(request.seat)) {
    return Status::Cancelled(
        fmt::format("worker {} is not wanted any more, and is being killed", request.seat.value));
  }
  if (request.launch == LaunchId()) {
    return Status::Ok();
  }
  const auto ended = ended_.find(request.seat);
  const bool has_ended = ended != ended_.end() && ended->second == request.launch;
  if (has_ended || request.launch < job_->seats.LaunchOf(request.seat)) {
    return Status::Cancelled(fmt::format(
        "launch {} of worker {} {}",
        request.launch.value,
        request.seat.value,
        has_ended ? "has ended" : "was replaced by a later one"));
  }
  const Member* const holder = job_->membership.FindSeat(request.seat);
  const bool is_doubled = holder != nullptr && holder->record->launch == request.launch &&
                          holder->record->is_heard && holder->peer != proto::PeerId();
  return is_doubled ? Status::Unavailable(fmt::format(
                          "launch {} of worker {} takes part already, as process {} on {}",
                          request.launch.value,
                          request.seat.value,
                          holder->record->pid,
                          holder->record->host))
                    : Status::Ok();
}

void JoinDesk::Admit(const Call& call, const proto::JoinRequest& request) {
  FreeKeptSeats(&request, call.now);
  if (const Status status = MayAsk(request, call); !status.ok()) {
    job_->Refuse(call, status.code(), std::string(status.message()));
    return;
  }
  const std::optional<WorkerId> seat = ChooseSeat(request, call);
  if (!seat) {
    job_->Refuse(
        call,
        StatusCode::kOverloaded,
        fmt::format(
            "all {} seats are taken; a worker can join when one has left", job_->seats.size()));
    return;
  }
  if (job_->membership.members().size() >= job_->MembersMax()) {
    job_->events.Tell(
        proto::EventCode::kNoRoomForWorker, {{"members", job_->membership.members().size()}});
    job_->Refuse(
        call,
        StatusCode::kOverloaded,
        fmt::format(
            "the shards have room for the gradients of {} workers; raise servers.queue_mib or use "
            "more shards",
            job_->MembersMax()));
    return;
  }
  if (HasToWait()) {
    pending_[call.from] = {request, call.request_id};
    return;
  }
  // One that returns to another seat is the machine that it was.
  const proto::WorkerGroup& group =
      job_->seats.GroupOf(request.is_returning ? request.seat : *seat);
  const std::optional<Duration> began = job_->membership.BeganOf(request.process());
  Member& member = job_->membership.Add(*seat, request.process());
  job_->seats.Take(*seat, request.launch);
  MemberRecord* const record = &job_->membership.Edit(member);
  record->minibatch = request.minibatch == 0 ? group.minibatch : request.minibatch;
  record->slowdown = request.slowdown == 0 ? group.slowdown : request.slowdown;
  record->threads = group.threads;
  record->device = group.device;
  record->began = began.value_or(call.now - job_->started_at);
  // Under ssp it counts for the bound when it gets its first lease: until then it is loading data.
  record->is_active = !job_->is_ssp();
  member.peer = call.from;
  member.join_request_id = call.request_id;
  member.since = call.now;
  member.last_heard = call.now;
  member.last_heartbeat = call.now;
  member.last_progress = call.now;
  job_->peers.At(call.from).incarnation = record->incarnation;
  ++job_->edit.counters.joins;
  job_->events.Tell(
      proto::EventCode::kWorkerJoins,
      {{"worker", seat->value},
       {"incarnation", record->incarnation.value},
       {"host", record->host},
       {"pid", record->pid},
       {"launch", record->launch.value},
       {"generation", record->joined.value}});
}

/// Whoever asks is admitted later.
bool JoinDesk::HasToWait() const {
  const Membership& membership = job_->membership;
  const uint64_t present = membership.members().size() + membership.departures().size();
  // A shard keeps what a gone member staged for the open round until the departure is forgotten.
  if (job_->is_bsp() && present >= job_->MembersMax()) {
    return true;
  }
  // The offer of chunks that move says something of each member.
  const std::optional<proto::ChunkMove>& move = job_->state.servers.chunks;
  if (move && present >= proto::OfferMembersMax(move->keys.size())) {
    return true;
  }
  const uint64_t reply_bytes =
      job_->state.config_json.size() +
      job_->state.placement.chunks.size() * sizeof(proto::ChunkAssignment) +
      job_->shards.size() * sizeof(proto::ShardAddress);
  return membership.joining_count() >= std::max(kReplyBytesMax / reply_bytes, kRepliesMin);
}

void JoinDesk::Answer(const Call& call) {
  for (const Incarnation incarnation : job_->membership.TakeJoined()) {
    Member* const member = job_->membership.Find(incarnation);
    if (member->peer == proto::PeerId()) {
      LoseJoining(incarnation, call);  // with an earlier process of the coordinator
      continue;
    }
    MemberRecord& record = job_->membership.Edit(*member);
    record.is_admitted = true;
    record.lives_missed = 0;
    member->last_heard = call.now;
    SendReply(*member, call);
  }
}

void JoinDesk::SendReply(const Member& member, const Call& call) const {
  const MemberRecord& record = *member.record;
  proto::JoinReply reply;
  reply.worker = record.seat;
  reply.incarnation = record.incarnation;
  reply.generation = record.joined;
  reply.config_json = job_->state.config_json;
  reply.shards = job_->shards.Addresses();
  reply.placement = job_->state.placement;
  reply.minibatch = record.minibatch;
  reply.slowdown = record.slowdown;
  reply.threads = record.threads;
  reply.device = record.device;
  if (!job_->options.config.worker.program.empty()) {
    reply.tensors = job_->options.tensors;
  }
  call.out->Send(member.peer, member.join_request_id, std::move(reply));
}

void JoinDesk::SendAway(const Call& call) {
  std::vector<Incarnation> joining;
  for (const auto& [incarnation, member] : job_->membership.members()) {
    if (!member.record->is_admitted) {
      joining.push_back(incarnation);
    }
  }
  for (const Incarnation incarnation : joining) {
    departures_->Remove(incarnation, LeaveKind::kLeft, "the run is stopping", call);
  }
  for (const auto& [peer, join] : std::exchange(pending_, {})) {
    call.out->Send(peer, join.request_id, proto::Shutdown{"the run is stopping"});
  }
}

}  // namespace ps::coordinator
