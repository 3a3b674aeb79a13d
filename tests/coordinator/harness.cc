#include "tests/coordinator/harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "ps/coordinator/state/placement.h"
#include "ps/proto/membership.h"
#include "tests/coordinator/journal_check.h"

namespace ps::coordinator {
namespace {

/// The journal is compared with the state whenever it is cheap, so often at most, and after one of
/// so many other events.
constexpr size_t kCheapMembers = 20;
constexpr uint64_t kCheckEvery = 64;
constexpr uint64_t kChecksMax = 200;
/// Launches that the core has not asked for.
constexpr uint64_t kForeignLaunches = uint64_t{1} << 40U;

}  // namespace

CoordinatorOptions SmallJob(proto::Mode mode) {
  CoordinatorOptions options;
  options.config.name = "small";
  options.config.train.mode = mode;
  options.config.train.epochs = 1;
  options.config.train.minibatch = 10;
  options.config.train.lease_steps = 2;
  options.config.servers.count = 2;
  options.config.servers.chunk_kib = 1;
  options.config.workers = {{3, 0, 1, 1}};
  options.config.fleet.max_detect_s = 2.4F;
  options.config.fleet.join_timeout_s = 30;
  options.config.fleet.replace = false;
  options.config.fleet.park_servers_after_s = 0;
  options.tensors = {{"w", {1000}}, {"b", {10}}};
  options.train_samples = 200;
  options.run_directory = "runs/small";
  return options;
}

Harness::Harness(const CoordinatorOptions& job, const Logger* log)
    : shards(size_t{job.config.servers.count} * job.config.servers.shards_per_server),
      timing(proto::Timing::FromMaxDetect(
          FromSeconds(static_cast<double>(job.config.fleet.max_detect_s)))),
      options(job),
      log_(log) {
  OpenJournal();
  core = std::make_unique<CoordinatorCore>(OptionsNow(), &fleet, log_);
}

void Harness::OpenJournal() {
  journal.reset();
  auto opened = JobJournal::Open(storage, "journal", "boot", &NullLogger());
  PS_CHECK(opened.ok()) << opened.status();
  journal = std::move(opened).value();
}

CoordinatorOptions Harness::OptionsNow() const {
  CoordinatorOptions now_options = options;
  now_options.journal = journal.get();
  return now_options;
}

void Harness::Send(proto::PeerId to, uint64_t /*request_id*/, proto::Message message) {
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].peer == to && to != proto::PeerId()) {
      to_shards_.emplace_back(i, std::move(message));
      return;
    }
  }
  sent_[to].push_back(std::move(message));
}

void Harness::Close(proto::PeerId peer) {
  closed_[peer] = true;
}

void Harness::Answer(FakeShard* shard, const proto::Message& message) {
  const ShardId id(static_cast<uint32_t>(shard - shards.data()));
  if (std::holds_alternative<proto::HeartbeatReply>(message)) {
    return;
  }
  if (shard->is_mute || shard->is_silent) {
    shard->unanswered.push_back(message);
    return;
  }
  if (const auto* setup = std::get_if<proto::ShardSetup>(&message)) {
    shard->setups.push_back(*setup);
    if (setup->life != shard->life) {
      shard->commits.clear();
    }
    shard->life = setup->life;
    core->OnMessage(shard->peer, 1, proto::ShardReady{id, setup->life}, now, this);
  } else if (const auto* checkpoint = std::get_if<proto::CheckpointRequest>(&message)) {
    shard->checkpoints.push_back(*checkpoint);
    if (shard->checkpoint_code) {
      proto::CheckpointReport report;
      report.shard = id;
      report.checkpoint = checkpoint->checkpoint;
      report.code = *shard->checkpoint_code;
      report.message = "no space left";
      report.sizes.written_bytes = 100;
      core->OnMessage(shard->peer, 1, report, now, this);
    }
  } else if (const auto* membership = std::get_if<proto::Membership>(&message)) {
    if (membership->generation > shard->membership.generation) {
      EXPECT_LE(membership->base, shard->membership.generation);
      proto::ApplyMembership(*membership, &shard->membership);
    }
    proto::MembershipAck ack{id, shard->membership.generation, {}};
    for (const Incarnation incarnation : shard->membership.resolve) {
      ack.resolved.push_back(
          {incarnation, shard->complete[incarnation], shard->outcome[incarnation]});
    }
    core->OnMessage(shard->peer, 1, ack, now, this);
  } else if (const auto* commit = std::get_if<proto::CommitRound>(&message)) {
    if (shard->commits.empty() || shard->commits.back().round < commit->round) {
      shard->commits.push_back(*commit);
    }
    core->OnMessage(shard->peer, 1, proto::CommitAck{id, commit->round}, now, this);
  } else if (const auto* pull = std::get_if<proto::PullRequest>(&message)) {
    shard->pulls.push_back(*pull);
    GiveModel(shard, *pull);
  } else if (const auto* values = std::get_if<proto::PullReply>(&message)) {
    shard->values.push_back(*values);
  } else if (const auto* give = std::get_if<proto::GiveChunks>(&message)) {
    shard->gives.push_back(*give);
  } else if (const auto* notice = std::get_if<proto::NoticeReply>(&message)) {
    shard->notice_reply = *notice;
  } else if (std::holds_alternative<proto::Shutdown>(message)) {
    shard->is_told = true;
  }
}

float Harness::ValueOf(uint32_t tensor, int64_t element) {
  return static_cast<float>(10000 * tensor + element);
}

void Harness::GiveModel(FakeShard* shard, const proto::PullRequest& pull) {
  const ShardId id(static_cast<uint32_t>(shard - shards.data()));
  const proto::Placement placement = core->StateAt(now).placement;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    const bool is_held = std::ranges::any_of(
        pull.held, [&](const proto::ChunkVersion& held) { return held.key == chunk.key; });
    if (chunk.shard != id || is_held) {
      continue;
    }
    proto::PullReply reply;
    reply.chunks.push_back({chunk.key, 3, chunk.element_count, 0});
    auto buffer = std::make_shared<Buffer>(chunk.element_count * sizeof(float));
    for (uint32_t i = 0; i < chunk.element_count; ++i) {
      buffer->floats()[i] = ValueOf(TensorOf(chunk.key), chunk.element_begin + i);
    }
    const size_t bytes = buffer->size();
    reply.payload = proto::Payload::Own(std::move(buffer), bytes);
    core->OnMessage(shard->peer, 1, std::move(reply), now, this);
  }
}

void Harness::Exchange() {
  while (!to_shards_.empty()) {
    const auto [index, message] = std::move(to_shards_.front());
    to_shards_.pop_front();
    Answer(&shards[index], message);
  }
  ExpectSound();
}

void Harness::ExpectSound() {
  const Status status = core->Check();
  EXPECT_TRUE(status.ok()) << status;
  RowChanges rows = core->TakeRows(now, journal->WantsAll(now));
  if (unmarked && !rows.is_all) {
    std::erase_if(rows.changes, [&](const auto& row) { return row.id.kind == *unmarked; });
  }
  journal->Write(rows, now);
  // Rows and state are compared as a whole, so what a skipped one would find the next one does.
  const bool is_cheap =
      core->member_count() < kCheapMembers && rows.changes.size() > 1 && checked_ < kChecksMax;
  if (!unmarked && !is_cheap && ++skipped_ % kCheckEvery != 0) {
    return;
  }
  ++checked_;
  const Status journaled = CheckJournal(journal.get(), *core, now);
  is_unmarked_found = is_unmarked_found || !journaled.ok();
  EXPECT_TRUE(unmarked || journaled.ok()) << journaled;
}

proto::PeerId Harness::Connect(
    proto::Role role, Incarnation incarnation, const std::string& token, const std::string& node) {
  const proto::PeerId peer(++next_peer_);
  core->OnPeerConnected(peer, {role, token, node, incarnation}, now, this);
  Exchange();
  return peer;
}

void Harness::Give(proto::PeerId from, proto::Message message) {
  core->OnMessage(from, 1, std::move(message), now, this);
  Exchange();
}

void Harness::RegisterShard(uint32_t shard, int64_t pid) {
  if (std::exchange(shards[shard].pid, pid) != pid) {
    shards[shard].life = 0;
  }
  shards[shard].peer = Connect(proto::Role::kShard);
  const proto::ServerConfig& config = options.config.servers;
  const LaunchId launch =
      config.launch ? LaunchOf(ProcessKind::kServer, shard / config.shards_per_server, pid)
                    : LaunchId();
  Give(
      shards[shard].peer,
      proto::RegisterShard{ShardId(shard), "host", 7000 + shard, pid, shards[shard].life, launch});
}

void Harness::Restart(Duration pause) {
  ExpectSound();
  core.reset();
  OpenJournal();
  sent_.clear();
  to_shards_.clear();
  now += pause;
  auto recovered = journal->Recover();
  ASSERT_TRUE(recovered.ok() && *recovered) << recovered.status();
  auto loaded = CoordinatorCore::Load((*recovered)->state, OptionsNow(), &fleet, log_, now);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  core = std::move(loaded).value();
  for (uint32_t i = 0; i < shards.size(); ++i) {
    if (std::exchange(shards[i].peer, proto::PeerId()) != proto::PeerId()) {
      RegisterShard(i, shards[i].pid);
    }
  }
}

void Harness::Reconnect(FakeWorker* worker) {
  worker->peer = Connect(proto::Role::kWorker, worker->incarnation);
}

void Harness::StartWithShards() {
  core->Start(now);
  for (uint32_t i = 0; i < shards.size(); ++i) {
    RegisterShard(i, 500 + i);
  }
}

std::vector<FakeWorker> Harness::StartWithWorkers() {
  StartWithShards();
  std::vector<FakeWorker> workers;
  workers.reserve(fleet.workers.size());
  for (const auto& [seat, group] : fleet.workers) {
    workers.push_back(Join(seat.value, 1000 + seat.value));
  }
  return workers;
}

void Harness::Unmute(uint32_t shard) {
  shards[shard].is_mute = false;
  for (const proto::Message& message : std::exchange(shards[shard].unanswered, {})) {
    Answer(&shards[shard], message);
  }
  Exchange();
}

void Harness::Wait(Duration duration, const std::vector<FakeWorker>& alive) {
  const TimePoint end = now + duration;
  while (now < end) {
    now += timing.tick;
    for (uint32_t i = 0; i < shards.size(); ++i) {
      if (shards[i].peer != proto::PeerId() && !shards[i].is_silent) {
        core->OnMessage(shards[i].peer, 1, proto::ShardHeartbeat{ShardId(i), {}, {}}, now, this);
      }
    }
    for (const FakeWorker& worker : alive) {
      proto::WorkerHeartbeat beat;
      beat.incarnation = worker.incarnation;
      beat.state = proto::WorkerState::kComputing;
      beat.placement = core->StateAt(now).placement.version;
      beat.is_at_risk = worker.is_at_risk;
      beat.ignored = worker.ignored;
      core->OnMessage(worker.peer, 1, beat, now, this);
    }
    core->OnTick(now, this);
    Exchange();
  }
}

LaunchId Harness::LaunchOf(ProcessKind kind, uint32_t index, int64_t pid) {
  if (const auto known = launch_of_.find({kind, pid}); pid != 0 && known != launch_of_.end()) {
    return known->second;
  }
  std::vector<LaunchId>& launches = fleet.launches[{kind, index}];
  if (launches.empty() || has_process_.contains(launches.back())) {
    launches.emplace_back(kForeignLaunches + ++foreign_launches_);
  }
  has_process_.insert(launches.back());
  launch_of_[{kind, pid}] = launches.back();
  return launches.back();
}

/// Pid 0: of the newest.
void Harness::Exit(ProcessKind kind, uint32_t index, int64_t pid, const std::string& description) {
  const bool is_any = pid == 0 && !fleet.launches[{kind, index}].empty();
  Exit(kind, index, is_any ? fleet.NewestOf(kind, index) : LaunchOf(kind, index, pid), description);
}

void Harness::Exit(
    ProcessKind kind, uint32_t index, LaunchId launch, const std::string& description) {
  if (kind == ProcessKind::kServer) {
    fleet.killed.insert(launch);  // there is nothing left to kill
  }
  core->OnProcessExited({kind, index, launch, description, false, ""}, now, this);
  Exchange();
}

void Harness::FailWorker(uint32_t seat, int64_t pid, const std::string& last_words) {
  const LaunchId launch = pid == 0 ? fleet.NewestOf(ProcessKind::kWorker, seat)
                                   : LaunchOf(ProcessKind::kWorker, seat, pid);
  core->OnProcessExited(
      {ProcessKind::kWorker, seat, launch, "exited with code 1", true, last_words}, now, this);
  Exchange();
}

proto::PeerId Harness::AskToJoin(std::optional<uint32_t> seat, int64_t pid, bool is_returning) {
  const proto::PeerId peer = Connect(proto::Role::kWorker);
  proto::JoinRequest request;
  request.has_seat = seat.has_value();
  request.seat = WorkerId(seat.value_or(0));
  request.host = "host";
  request.pid = pid;
  request.is_returning = is_returning;
  if (seat) {
    request.launch = LaunchOf(ProcessKind::kWorker, *seat, pid);
  } else {
    launch_of_.insert({{ProcessKind::kWorker, pid}, LaunchId()});  // by hand
  }
  Give(peer, request);
  return peer;
}

FakeWorker Harness::Join(std::optional<uint32_t> seat, int64_t pid, bool is_returning) {
  FakeWorker worker;
  worker.peer = AskToJoin(seat, pid, is_returning);
  const auto reply = Take<proto::JoinReply>(worker.peer);
  EXPECT_TRUE(reply.has_value());
  if (reply) {
    worker.incarnation = reply->incarnation;
    worker.seat = reply->worker;
    worker.minibatch = reply->minibatch;
  }
  return worker;
}

std::optional<proto::LeaseGrant> Harness::Ask(FakeWorker* worker) {
  Give(worker->peer, proto::LeaseRequest{worker->incarnation, worker->newest});
  return TakeGrant(worker);
}

std::vector<proto::LeaseGrant> Harness::AskAll(std::vector<FakeWorker>* workers) {
  for (const FakeWorker& worker : *workers) {
    Give(worker.peer, proto::LeaseRequest{worker.incarnation, worker.newest});
  }
  std::vector<proto::LeaseGrant> grants;
  grants.reserve(workers->size());
  for (FakeWorker& worker : *workers) {
    grants.push_back(TakeGrant(&worker).value_or(proto::LeaseGrant{}));
  }
  return grants;
}

std::optional<proto::LeaseGrant> Harness::TakeGrant(FakeWorker* worker) {
  const auto grant = Take<proto::LeaseGrant>(worker->peer);
  if (grant) {
    worker->newest = grant->lease;
  }
  return grant;
}

proto::StepDone Harness::MakeStep(
    FakeWorker* worker, const proto::LeaseGrant& grant, uint64_t begin) const {
  proto::StepDone done;
  done.step = ++worker->step;
  done.lease = grant.lease;
  done.begin = begin;
  const uint32_t minibatch = grant.minibatch > 0 ? grant.minibatch : worker->minibatch;
  done.end = std::min<uint64_t>(begin + uint64_t{minibatch} * grant.local_steps, grant.end);
  done.loss_sum = static_cast<double>(done.end - done.begin);
  done.correct = (done.end - done.begin) / 2;
  for (const FakeShard& shard : shards) {
    done.lives += shard.life;
  }
  done.placement = core->StateAt(now).placement.version;
  return done;
}

void Harness::Complete(const FakeWorker& worker, Step step) {
  for (FakeShard& shard : shards) {
    shard.complete[worker.incarnation] = step;
  }
}

void Harness::Work(FakeWorker* worker, const proto::LeaseGrant& grant) {
  for (uint64_t begin = grant.begin; begin < grant.end;) {
    const proto::StepDone done = MakeStep(worker, grant, begin);
    Complete(*worker, done.step);
    Give(worker->peer, proto::StepReport{worker->incarnation, {done}});
    begin = done.end;
  }
}

void Harness::Evaluate(const FakeWorker& worker, const proto::LeaseGrant& grant) {
  const uint64_t samples = grant.end - grant.begin;
  Give(
      worker.peer,
      proto::EvaluateReport{
          worker.incarnation, grant.lease, samples, static_cast<double>(samples), samples / 2, {}});
}

void CloseAll(Harness* harness, const std::vector<FakeWorker>& workers) {
  for (const FakeWorker& worker : workers) {
    harness->core->OnPeerClosed(worker.peer, harness->now, harness->out());
  }
}

void RunToTheEnd(Harness* harness, std::vector<FakeWorker>* workers) {
  std::vector<proto::LeaseGrant> grants = harness->AskAll(workers);
  for (int turn = 0; turn < 1000 && harness->status().state != proto::RunState::kDone; ++turn) {
    for (size_t i = 0; i < workers->size(); ++i) {
      FakeWorker& worker = (*workers)[i];
      if (grants[i].lease == LeaseId()) {
        grants[i] = harness->TakeGrant(&worker).value_or(proto::LeaseGrant{});
      }
      if (grants[i].lease == LeaseId()) {
        continue;
      }
      if (grants[i].kind == proto::LeaseKind::kTrain) {
        harness->Work(&worker, grants[i]);
      } else {
        harness->Evaluate(worker, grants[i]);
      }
      grants[i] = harness->Ask(&worker).value_or(proto::LeaseGrant{});
    }
  }
}

}  // namespace ps::coordinator
