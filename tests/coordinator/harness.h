#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/coordinator/coordinator_core.h"
#include "ps/coordinator/job_journal.h"
#include "tests/checkpoint/memory_storage.h"

namespace ps::coordinator {

/// Three async workers of minibatch 10 and two shards; one epoch of 200 samples, nothing evaluated.
CoordinatorOptions SmallJob(proto::Mode mode = proto::Mode::kAsync);

using proto::ProcessKind;

/// Notes what the core asks for.
class FakeFleet final : public proto::FleetActions {
 public:
  void StartServer(uint32_t server, LaunchId launch) override {
    servers.push_back(server);
    launches[{ProcessKind::kServer, server}].push_back(launch);
  }

  void StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) override {
    workers.emplace_back(seat, group);
    launches[{ProcessKind::kWorker, seat.value}].push_back(launch);
  }

  void KillWorker(WorkerId seat) override { kills.push_back(seat); }

  /// Only those of which a process may be there.
  void KillServer(uint32_t server, LaunchId keep) override {
    for (const LaunchId launch : launches[{ProcessKind::kServer, server}]) {
      if (launch != keep && killed.insert(launch).second) {
        server_kills.push_back(server);
      }
    }
  }

  bool HasServer(uint32_t server) const override { return !foreign.contains(server); }

  std::string ZoneOf(WorkerId seat) const override {
    const auto zone = zones.find(seat);
    return zone == zones.end() ? "" : zone->second;
  }

  /// Seats that workers were started for since it was asked last.
  std::vector<uint32_t> TakeStarted() {
    std::vector<uint32_t> seats;
    for (const auto& [seat, group] : workers) {
      seats.push_back(seat.value);
    }
    workers.clear();
    return seats;
  }

  /// The newest process of a server or of a seat.
  LaunchId NewestOf(ProcessKind kind, uint32_t index) { return launches[{kind, index}].back(); }

  std::map<std::pair<ProcessKind, uint32_t>, std::vector<LaunchId>> launches;  // ever, in order
  std::vector<uint32_t> servers;
  std::vector<std::pair<WorkerId, proto::WorkerGroup>> workers;
  std::vector<WorkerId> kills;
  std::vector<uint32_t> server_kills;  // of each launch once
  std::set<LaunchId> killed;           // launches of servers
  std::set<uint32_t> foreign;          // servers that somebody else has started
  std::map<WorkerId, std::string> zones;
};

/// A shard made of answers: it acknowledges at once what it gets, unless told to hold its tongue.
struct FakeShard {
  proto::PeerId peer;
  bool is_mute = false;
  bool is_silent = false;                // mute, and without heartbeats
  std::map<Incarnation, Step> complete;  // last complete step, for Membership.resolve
  std::map<Incarnation, proto::PushOutcome> outcome;
  proto::Membership membership;  // newest seen
  std::vector<proto::CommitRound> commits;
  std::vector<proto::Message> unanswered;  // while mute
  std::vector<proto::PullRequest> pulls;   // of the model at the end
  std::vector<proto::PullReply> values;    // initial ones
  std::vector<proto::ShardSetup> setups;
  int64_t pid = 0;    // of the process that registered last
  uint64_t life = 0;  // that it was given
  std::vector<proto::CheckpointRequest> checkpoints;
  std::optional<StatusCode> checkpoint_code = StatusCode::kOk;  // of its reports; nothing: none
  bool is_told = false;                                         // to leave
  std::vector<proto::GiveChunks> gives;                         // orders, the newest last
  std::optional<proto::NoticeReply> notice_reply;               // the newest
};

/// A worker made of messages.
struct FakeWorker {
  proto::PeerId peer;
  Incarnation incarnation;
  WorkerId seat;
  uint32_t minibatch = 0;
  LeaseId newest;
  Step step = 0;            // last one that Complete or Report made
  bool is_at_risk = false;  // as its heartbeats say
  std::string ignored;      // likewise
};

/// The core with everybody around it scripted. Time passes only in Wait.
class Harness final : private proto::Outbox {
 public:
  explicit Harness(
      const CoordinatorOptions& options = SmallJob(), const Logger* log = &NullLogger());

  /// Start, and all shards registered and set up.
  void StartWithShards();
  /// StartWithShards, and all workers of the config have joined.
  std::vector<FakeWorker> StartWithWorkers();

  proto::PeerId Connect(
      proto::Role role,
      Incarnation incarnation = {},
      const std::string& token = "",
      const std::string& node = "node");
  void Close(proto::PeerId peer) override;
  /// A message from `from`; answers of the fake shards are exchanged until nothing moves.
  void Give(proto::PeerId from, proto::Message message);
  /// A process that was set up comes with the life that it was given.
  void RegisterShard(uint32_t shard, int64_t pid);
  /// The coordinator's process ends with all its connections, another one goes on after `pause`
  /// from the journal, and the shards come back. Workers come back by Reconnect.
  void Restart(Duration pause = {});
  void Reconnect(FakeWorker* worker);
  void Unmute(uint32_t shard);
  /// Ticks until `duration` is over, with heartbeats of every shard and the given workers.
  void Wait(Duration duration, const std::vector<FakeWorker>& alive = {});
  void Exit(ProcessKind kind, uint32_t index, int64_t pid, const std::string& description);
  void Exit(ProcessKind kind, uint32_t index, LaunchId launch, const std::string& description);

  /// The launch that the scripted process is of: a new one is of the newest of its place, unless
  /// another one is. Then somebody else has started it later. Pid 0 is always a new one.
  LaunchId LaunchOf(ProcessKind kind, uint32_t index, int64_t pid);

  /// A worker's process ends by itself with code 1.
  void FailWorker(uint32_t seat, int64_t pid, const std::string& last_words);

  /// Sends JoinRequest; the worker is a member when JoinReply has come.
  proto::PeerId AskToJoin(std::optional<uint32_t> seat, int64_t pid = 0, bool is_returning = false);
  /// Joins at once. Requires: no shard is mute.
  FakeWorker Join(
      std::optional<uint32_t> seat = std::nullopt, int64_t pid = 0, bool is_returning = false);
  /// Asks for a lease; nothing when none was granted at once.
  std::optional<proto::LeaseGrant> Ask(FakeWorker* worker);
  /// All ask; then what each was granted, an empty grant for nothing. The job begins with this.
  std::vector<proto::LeaseGrant> AskAll(std::vector<FakeWorker>* workers);
  /// The grant that came for an earlier Ask.
  std::optional<proto::LeaseGrant> TakeGrant(FakeWorker* worker);
  /// The next step of `worker`, on samples [begin, ...) of the lease.
  proto::StepDone MakeStep(
      FakeWorker* worker, const proto::LeaseGrant& grant, uint64_t begin) const;
  /// All shards have completed the step (it is not reported).
  void Complete(const FakeWorker& worker, Step step);
  /// Completes and reports every step of the lease.
  void Work(FakeWorker* worker, const proto::LeaseGrant& grant);
  void Evaluate(const FakeWorker& worker, const proto::LeaseGrant& grant);

  /// Takes the oldest message of type T sent to `peer`, and drops what was sent before it. Nothing
  /// happens when there is none.
  template <typename T>
  std::optional<T> Take(proto::PeerId peer) {
    std::deque<proto::Message>& sent = sent_[peer];
    for (auto it = sent.begin(); it != sent.end(); ++it) {
      if (const T* match = std::get_if<T>(&*it)) {
        const T message = *match;
        sent.erase(sent.begin(), it + 1);
        return message;
      }
    }
    return std::nullopt;
  }

  /// What a shard says of the model.
  static float ValueOf(uint32_t tensor, int64_t element);

  bool is_closed(proto::PeerId peer) const { return closed_.contains(peer); }

  proto::JobStatus status() const { return core->StatusAt(now); }

  proto::Outbox* out() { return this; }

  bool IsBacklogged(proto::PeerId peer) const override { return slow.contains(peer); }

  std::set<proto::PeerId> slow;  // take nothing more for now

  FakeFleet fleet;
  checkpoint::MemoryStorage storage;
  std::unique_ptr<JobJournal> journal;
  std::unique_ptr<CoordinatorCore> core;
  std::optional<RowKind> unmarked;  // as if nobody marked rows of this kind
  bool is_unmarked_found = false;   // and the journal was seen to lack them
  TimePoint now{std::chrono::seconds(100)};
  std::vector<FakeShard> shards;
  proto::Timing timing;

  const CoordinatorOptions options;

 private:
  const Logger* const log_;
  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;
  void Answer(FakeShard* shard, const proto::Message& message);
  void GiveModel(FakeShard* shard, const proto::PullRequest& pull);
  void Exchange();
  void OpenJournal();
  CoordinatorOptions OptionsNow() const;
  /// The state fits together, and its journal is as it is.
  void ExpectSound();

  std::map<proto::PeerId, std::deque<proto::Message>> sent_;  // to workers and control
  std::deque<std::pair<size_t, proto::Message>> to_shards_;
  std::map<proto::PeerId, bool> closed_;
  std::map<std::pair<ProcessKind, int64_t>, LaunchId> launch_of_;  // by pid
  std::set<LaunchId> has_process_;
  uint64_t foreign_launches_ = 0;
  uint64_t next_peer_ = 0;
  uint64_t skipped_ = 0;
  uint64_t checked_ = 0;
};

/// The workers' connections end.
void CloseAll(Harness* harness, const std::vector<FakeWorker>& workers);

/// Everybody works by turns until nobody gets anything.
void RunToTheEnd(Harness* harness, std::vector<FakeWorker>* workers);

}  // namespace ps::coordinator
