// What a worker-step, a join and a status cost the coordinator, by the number of workers, with its
// journal on the disk and without any; and what share of its time its page takes while somebody
// looks all the time: target 1 % at most, whatever the fleet. The production core gets the messages
// that workers and shards would send, with virtual time in between; what it sends is encoded as for
// a socket. Reading of sockets is left out, and so is what makes the messages.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/storage/rocksdb_storage.h"
#include "provisioner/simulator/scripted_peers.h"
#include "ps/coordinator/coordinator_core.h"
#include "ps/coordinator/job_journal.h"
#include "run/page/page_board.h"
#include "run/page/prometheus.h"
#include "tests/base/temporary_folder.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

constexpr uint32_t kShards = 4;
constexpr uint32_t kMinibatch = 64;
constexpr Duration kStepTime = std::chrono::seconds(1);
// Made, given to the core and forgotten together: a loop too has its messages in the cache, and
// what the rig keeps must not grow with the fleet.
constexpr size_t kEventsAtOnce = 32;

class NoFleet final : public proto::FleetActions {
 public:
  void StartServer(uint32_t /*server*/, LaunchId /*launch*/) override {}

  void StartWorker(
      WorkerId /*seat*/, LaunchId /*launch*/, const proto::WorkerGroup& /*group*/) override {}

  void KillWorker(WorkerId /*seat*/) override {}

  void KillServer(uint32_t /*server*/, LaunchId /*keep*/) override {}

  bool HasServer(uint32_t /*server*/) const override { return true; }
};

struct Event {
  proto::PeerId from;
  proto::Message message;
};

struct Worker {
  proto::PeerId peer;
  provisioner::ScriptedWorker script;
};

/// A journal in a folder of its own, which goes with it.
class JournalOnDisk {
 public:
  JournalOnDisk() {
    auto journal = coordinator::JobJournal::Open(*storage_, folder_.path(), "boot", &NullLogger());
    PS_CHECK(journal.ok()) << journal.status();
    journal_ = std::move(journal).value();
  }

  JournalOnDisk(const JournalOnDisk&) = delete;
  JournalOnDisk& operator=(const JournalOnDisk&) = delete;

  ~JournalOnDisk() {
    PS_CHECK(journal_->failures() == 0) << journal_->trouble();
    journal_.reset();
  }

  coordinator::JobJournal* get() const { return journal_.get(); }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<checkpoint::Storage> storage_ = checkpoint::MakeRocksDbStorage();
  std::unique_ptr<coordinator::JobJournal> journal_;
};

/// A coordinator with `workers` workers at work, each of them a script.
class Rig final : private proto::Outbox {
 public:
  /// `journal` may be null, and outlives it.
  Rig(proto::Mode mode, uint32_t workers, coordinator::JobJournal* journal)
      : journal_(journal),
        options_(Options(mode, workers, journal)),
        core_(options_, &fleet_, &NullLogger()) {
    core_.Start(now_);
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      const proto::PeerId peer = Connect(proto::Role::kShard);
      shards_[peer] = ShardId(shard);
      Feed({{peer, proto::RegisterShard{ShardId(shard), "host", 7000 + shard, 1, 0, {}}}});
    }
    for (uint32_t i = 0; i < workers; ++i) {
      Join(WorkerId(i));
    }
    std::vector<Event> events;
    for (const auto& [peer, worker] : workers_) {
      events.push_back({peer, worker.script.AskForWork()});
      order_.push_back(peer);
    }
    Random random(1);
    for (size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[random.Below(i)]);
    }
    Feed(std::move(events));
    cpu_s_ = 0;
  }

  /// Every worker makes a step, spread over kStepTime, with the heartbeats and ticks of that time.
  void Step() {
    const Duration gap = kStepTime / static_cast<int64_t>(3 * workers_.size());
    std::vector<Event> events;
    for (const proto::PeerId peer : order_) {
      Worker& worker = workers_.at(peer);
      AddStep(&worker, &events);
      AddHeartbeat(worker, &events);
      AddHeartbeat(worker, &events);
      if (events.size() >= kEventsAtOnce) {
        Feed(std::exchange(events, {}), gap);
      }
    }
    for (const auto& [peer, shard] : shards_) {
      proto::ShardHeartbeat beat;
      beat.shard = shard;
      for (const auto& [id, worker] : workers_) {
        const uint64_t step = worker.script.step();
        beat.stats.workers.push_back({WorkerId(), worker.script.incarnation(), step, step});
      }
      events.push_back({peer, beat});
      events.push_back({peer, std::move(beat)});
    }
    Feed(std::move(events), gap);
  }

  /// One joins, and is told its incarnation. Without a seat it takes a vacant one.
  Worker Join(std::optional<WorkerId> seat = std::nullopt) {
    const proto::PeerId peer = Connect(proto::Role::kWorker);
    proto::JoinRequest request;
    request.host = "host";
    request.has_seat = seat.has_value();
    request.seat = seat.value_or(WorkerId());
    request.pid = static_cast<int64_t>(1000 + peer.value);
    workers_[peer].peer = peer;
    Feed({{peer, request}});
    PS_CHECK(workers_[peer].script.incarnation() != Incarnation()) << "it has joined";
    return workers_[peer];
  }

  void Leave(const Worker& worker) {
    Feed({{worker.peer, proto::Goodbye{worker.script.incarnation(), "bench", {}}}});
    core_.OnPeerClosed(worker.peer, now_, this);
    Commit();
    workers_.erase(worker.peer);
  }

  proto::JobStatus Status() const { return core_.StatusAt(now_); }

  /// CPU seconds of the coordinator since the last call.
  double TakeCpuSeconds() { return std::exchange(cpu_s_, 0); }

 private:
  static coordinator::CoordinatorOptions Options(
      proto::Mode mode, uint32_t workers, const coordinator::JobJournal* journal) {
    coordinator::CoordinatorOptions options;
    options.config.name = "bench";
    options.config.train.mode = mode;
    options.config.train.minibatch = kMinibatch;
    options.config.servers.count = kShards;
    options.config.servers.chunk_kib = 1;
    options.config.workers.resize(1);
    options.config.workers[0].count = workers;
    options.tensors = {{"w", {1000}}};
    options.train_samples = uint64_t{1} << 40U;
    options.journal = journal;
    return options;
  }

  proto::PeerId Connect(proto::Role role) {
    const proto::PeerId peer(++last_peer_);
    const double begin = CpuSeconds();
    core_.OnPeerConnected(peer, {role, "", "node", Incarnation()}, now_, this);
    Commit();
    cpu_s_ += CpuSeconds() - begin;
    return peer;
  }

  static void AddHeartbeat(const Worker& worker, std::vector<Event>* events) {
    events->push_back({worker.peer, worker.script.Beat(proto::WorkerState::kComputing)});
  }

  static void AddStep(Worker* worker, std::vector<Event>* events) {
    if (worker->script.samples_left() == 0) {
      return;  // its grant has not come
    }
    events->push_back({worker->peer, worker->script.Report(1)});
    if (worker->script.samples_left() == 0) {
      events->push_back({worker->peer, worker->script.AskForWork()});
    }
  }

  /// Gives the events to the core, `gap` apart, then the answers of the shards to what it has sent,
  /// until nothing moves. Only the core is measured.
  void Feed(std::vector<Event> events, Duration gap = {}) {
    while (!events.empty()) {
      const double begin = CpuSeconds();
      for (Event& event : events) {
        core_.OnMessage(event.from, 1, std::move(event.message), now_, this);
        Commit();
        now_ += gap;
        for (; next_tick_ <= now_; next_tick_ += tick_) {
          core_.OnTick(now_, this);
          Commit();
        }
      }
      cpu_s_ += CpuSeconds() - begin;
      events.clear();
      for (const auto& [to, message] : sent_) {
        Answer(to, message, &events);
      }
      sent_.clear();
      gap = {};
    }
  }

  void Commit() {
    if (journal_ != nullptr) {
      journal_->Write(core_.TakeRows(now_, journal_->WantsAll(now_)), now_);
    }
  }

  void Answer(proto::PeerId to, const proto::Message& message, std::vector<Event>* events) {
    if (const auto worker = workers_.find(to); worker != workers_.end()) {
      worker->second.script.Take(message);
    }
    const auto shard = shards_.find(to);
    if (shard == shards_.end()) {
      return;
    }
    const auto no_step = [](Incarnation /*incarnation*/) { return ps::Step{0}; };
    if (auto answer = provisioner::AnswerOfShard(shard->second, message, no_step)) {
      events->push_back({to, *std::move(answer)});
    }
  }

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override {
    const proto::EncodedMessage encoded = proto::EncodeMessage(message, request_id);
    PS_CHECK(!encoded.head.empty());
    sent_.emplace_back(to, std::move(message));
  }

  void Close(proto::PeerId /*peer*/) override {}

  coordinator::JobJournal* const journal_;
  const coordinator::CoordinatorOptions options_;
  NoFleet fleet_;
  TimePoint now_{std::chrono::seconds(100)};
  const Duration tick_ = proto::Timing::FromMaxDetect(std::chrono::seconds(3)).tick;
  TimePoint next_tick_{std::chrono::seconds(100)};
  uint64_t last_peer_ = 0;
  double cpu_s_ = 0;
  std::vector<std::pair<proto::PeerId, proto::Message>> sent_;
  std::map<proto::PeerId, ShardId> shards_;
  std::map<proto::PeerId, Worker> workers_;
  std::vector<proto::PeerId> order_;  // in which they make their steps: not that of their numbers
  coordinator::CoordinatorCore core_;
};

struct Cost {
  double step_us = 0;
  double join_us = 0;
  double leave_us = 0;
  double status_us = 0;
  double text_us = 0;     // the page's and Prometheus' of a status, on threads of the page
  double page_share = 0;  // of the loop
};

/// Whoever looks all the time, for a minute.
double ShareOfPage(double status_s) {
  class HandClock final : public TimeSource {
   public:
    TimePoint Now() const override { return now; }

    int64_t UnixMicros() const override { return 0; }

    TimePoint now{std::chrono::hours(1)};
  };

  HandClock clock;
  run::PageBoard::Options options;
  options.wait_max = Duration::zero();
  options.time = &clock;
  run::PageBoard board(options);
  const TimePoint begin = clock.now;
  const Duration cost = FromSeconds(status_s);
  int made = 0;
  while (clock.now - begin < std::chrono::minutes(1)) {
    board.Look();
    if (board.IsWanted(clock.now)) {
      clock.now += cost;
      board.PutUp({}, cost, clock.now);
      ++made;
    }
    clock.now += std::chrono::milliseconds(50);
  }
  return made * status_s / 60;
}

void MeasureStatus(const Rig& rig, Cost* cost) {
  constexpr int kTimes = 5;
  double begin = CpuSeconds();
  for (int i = 0; i < kTimes; ++i) {
    PS_CHECK(!rig.Status().workers.empty());
  }
  const double status_s = (CpuSeconds() - begin) / kTimes;
  const auto status = std::make_shared<const proto::JobStatus>(rig.Status());
  begin = CpuSeconds();
  for (int i = 0; i < kTimes; ++i) {
    const run::PageLook look(status, "");
    PS_CHECK(!look.json().empty() && !run::RenderPrometheus(*status, "", 0).empty());
  }
  cost->text_us = (CpuSeconds() - begin) * 1e6 / kTimes;
  cost->status_us = status_s * 1e6;
  cost->page_share = ShareOfPage(status_s);
}

Cost Measure(proto::Mode mode, uint32_t workers, bool has_journal, uint32_t steps, uint32_t joins) {
  std::optional<JournalOnDisk> journal;
  Rig rig(mode, workers, has_journal ? journal.emplace().get() : nullptr);
  rig.Step();
  rig.TakeCpuSeconds();
  const uint32_t rounds = std::max<uint32_t>(steps / workers, 1);
  for (uint32_t i = 0; i < rounds; ++i) {
    rig.Step();
  }
  Cost cost;
  cost.step_us = rig.TakeCpuSeconds() * 1e6 / (static_cast<double>(rounds) * workers);
  double leave_s = 0;
  double join_s = 0;
  for (uint32_t i = 0; i < joins; ++i) {
    const Worker worker = rig.Join();
    join_s += rig.TakeCpuSeconds();
    rig.Leave(worker);
    leave_s += rig.TakeCpuSeconds();
  }
  cost.join_us = join_s * 1e6 / joins;
  cost.leave_us = leave_s * 1e6 / joins;
  MeasureStatus(rig, &cost);
  return cost;
}

/// Each fleet without a journal, then each with one.
std::vector<std::pair<uint32_t, bool>> Candidates(const std::vector<uint32_t>& fleets) {
  std::vector<std::pair<uint32_t, bool>> candidates;
  for (const bool has_journal : {false, true}) {
    for (const uint32_t workers : fleets) {
      candidates.emplace_back(workers, has_journal);
    }
  }
  return candidates;
}

int Main(int argc, char** argv) {
  const BenchArguments arguments = ReadBenchArguments(argc, argv, {.has_rows = true});
  const std::vector<uint32_t> fleets = arguments.is_tiny
                                           ? std::vector<uint32_t>{10, 50}
                                           : std::vector<uint32_t>{10, 100, 1000, 10'000};
  const uint32_t steps = arguments.is_tiny ? 100 : 40000;
  const uint32_t joins = arguments.is_tiny ? 2 : 200;
  const std::vector<std::pair<std::string, proto::Mode>> modes = {
      {"async", proto::Mode::kAsync}, {"ssp", proto::Mode::kSsp}, {"bsp", proto::Mode::kBsp}};
  std::printf("coordinator alone, %u shards; microseconds of CPU\n\n", kShards);
  Table table(
      {"mode and workers",
       "a worker-step",
       "a join",
       "a leave",
       "step, x of first",
       "a status",
       "its text",
       "page, %"});
  for (const auto& [name, mode] : modes) {
    std::vector<std::function<double()>> candidates;
    std::vector<std::string> rows;
    std::vector<bool> journals;
    std::vector<Samples> joined;
    std::vector<Samples> left;
    std::vector<Cost> newest;
    for (const auto& [workers, has_journal] : Candidates(fleets)) {
      const std::string row =
          name + " " + std::to_string(workers) + (has_journal ? " journal" : " plain");
      if (!arguments.Wants(row)) {
        continue;
      }
      rows.push_back(row);
      journals.push_back(has_journal);
      const size_t at = joined.size();
      joined.emplace_back();
      left.emplace_back();
      newest.emplace_back();
      candidates.emplace_back([&, m = mode, w = workers, j = has_journal, at] {
        const Cost cost = Measure(m, w, j, steps, joins);
        joined[at].values.push_back(cost.join_us);
        left[at].values.push_back(cost.leave_us);
        newest[at] = cost;
        return cost.step_us;
      });
    }
    const std::vector<Samples> stepped =
        MeasureInTurn(arguments.is_tiny ? 1 : arguments.runs, candidates);
    size_t first = 0;  // of those with a journal, or without
    for (size_t i = 0; i < rows.size(); ++i) {
      first = journals[i] == journals[first] ? first : i;
      table.Add(
          {rows[i],
           Spread(stepped[i], 2),
           Spread(joined[i], 1),
           Spread(left[i], 1),
           Fixed(stepped[i].Median() / stepped[first].Median(), 2),
           Fixed(newest[i].status_us, 0),
           Fixed(newest[i].text_us, 0),
           Fixed(newest[i].page_share * 100, 2)});
    }
  }
  table.Print();
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Main(argc, argv);
}
