#include "tests/sim/coordinator_node.h"

#include <utility>

#include "tests/coordinator/journal_check.h"

namespace ps::sim {
namespace {

constexpr const char* kJournalPath = "run/journal";
constexpr const char* kBootId = "boot";
/// Rows and state are compared after one event of so many; in every restart besides.
constexpr uint64_t kCheckEvery = 127;

/// When another process is started after a journal could not be opened.
constexpr Duration kTryAgain = std::chrono::milliseconds(50);

/// Of one that wakes before it is killed, as a fault.
constexpr Duration kLastWords = std::chrono::milliseconds(300);

/// The peer id of psctl. Those of the network count from 1.
constexpr proto::PeerId kAsking(~uint64_t{0});

std::string JournalPath(uint64_t run) {
  return std::string(kJournalPath) + (run == 0 ? "" : "-" + std::to_string(run));
}

/// Processes of the simulation are not the kernel's.
proto::LaunchRecord RecordOf(proto::ProcessKind kind, uint32_t index, LaunchId launch) {
  return {kind, index, launch, 1, 1};
}

}  // namespace

CoordinatorNode::CoordinatorNode(World world)
    : world_(std::move(world)),
      node_(world_.network->AddNode(this)),
      clock_(world_.queue, ClockAheadOf(*world_.scenario, 0)),
      out_(world_.network, node_, world_.log) {}

void CoordinatorNode::Answers::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  if (to != kAsking) {
    nodes_.Send(to, request_id, std::move(message));
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
    log_->Info("refused", {{"why", refusal->message}});
  }
}

void CoordinatorNode::Answers::Close(proto::PeerId peer) {
  if (peer != kAsking) {
    nodes_.Close(peer);
  }
}

void CoordinatorNode::BeginProcess() {
  BeginOutput();
  const Status status = OpenJournal();
  PS_CHECK(status.ok()) << status;
  core_ = std::make_unique<coordinator::CoordinatorCore>(Options(), &*held_, world_.log);
}

void CoordinatorNode::BeginOutput() {
  proto::FleetActions* const fleet = this;  // a private base
  held_.emplace(&out_, fleet);
  world_.on_begin();
}

Status CoordinatorNode::OpenJournal() {
  const auto open = [this]() -> Status {
    PS_ASSIGN(
        journal_,
        coordinator::JobJournal::Open(*world_.storage, JournalPath(run_), kBootId, world_.log));
    if (is_told_behind_ && world_.sabotage != Sabotage::kForgottenBehind) {
      journal_.reset();
      return coordinator::JobJournal::FellBehind();
    }
    journal_->TellOf(&is_told_behind_);
    return Status::Ok();
  };
  Status status = open();
  if (!status.ok() && world_.sabotage == Sabotage::kOldJournal) {
    const auto mark = world_.storage->OpenMark(JournalPath(run_));
    PS_CHECK(mark.ok()) << mark.status();
    PS_TRY((*mark)->Write("whole 0"));
    is_told_behind_ = false;
    status = open();
  }
  return status;
}

coordinator::CoordinatorOptions CoordinatorNode::Options() const {
  coordinator::CoordinatorOptions options = world_.options();
  options.journal = journal_.get();
  return options;
}

void CoordinatorNode::Start() {
  core_->Start(Now());
  Commit();
}

void CoordinatorNode::Tick() {
  if (!is_dead_) {
    core_->OnTick(Now(), &*held_);
    Commit();
  }
}

/// The launcher outlives the process, and tells the one that goes on.
void CoordinatorNode::OnProcessEnd(const proto::ProcessEnd& end) {
  world_.network->WhenAwake(node_, [this, end, run = run_] {
    if (run != run_ || has_no_run_) {
      return;
    }
    if (is_dead_) {
      world_.queue->After({}, [this, end] { OnProcessEnd(end); });
      return;
    }
    journal_->NoteEnded(RecordOf(end.kind, end.index, end.launch));
    core_->OnProcessExited(end, Now(), &*held_);
    Commit();
  });
}

void CoordinatorNode::OnManifestWritten(uint64_t checkpoint, const Status& status) {
  if (!is_dead_) {
    core_->OnManifestWritten(checkpoint, status, Now(), &*held_);
    Commit();
  }
}

void CoordinatorNode::OnManifestRead(
    uint64_t checkpoint, const Result<checkpoint::Manifest>& manifest) {
  if (!is_dead_) {
    core_->OnManifestRead(checkpoint, manifest, Now(), &*held_);
    Commit();
  }
}

/// Whoever asks tries again while there is no coordinator.
void CoordinatorNode::RequestStop(bool is_immediate, const std::string& why) {
  world_.network->WhenAwake(node_, [this, is_immediate, why, run = run_] {
    if (run != run_ || has_no_run_) {
      return;
    }
    if (is_dead_) {
      world_.queue->After({}, [this, is_immediate, why] { RequestStop(is_immediate, why); });
      return;
    }
    core_->RequestStop(is_immediate, why, Now(), &*held_);
    Commit();
  });
}

void CoordinatorNode::Ask(proto::Message request) {
  world_.network->WhenAwake(node_, [this, request = std::move(request), run = run_] {
    if (run != run_ || has_no_run_) {
      return;
    }
    if (is_dead_) {
      world_.queue->After({}, [this, request] { Ask(request); });
      return;
    }
    const TimePoint now = Now();
    core_->OnPeerConnected(
        kAsking, {proto::Role::kControl, "", "psctl", Incarnation()}, now, &*held_);
    core_->OnMessage(kAsking, 1, request, now, &*held_);
    core_->OnPeerClosed(kAsking, now, &*held_);
    Commit();
  });
}

void CoordinatorNode::OnAccepted(proto::PeerId peer, const proto::Hello& hello) {
  if (!is_dead_) {
    core_->OnPeerConnected(peer, hello, Now(), &*held_);
    if (core_->is_outranked()) {
      world_.violations->push_back("a server or worker has met a coordinator of a later term");
    }
    Commit();
  }
}

void CoordinatorNode::OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) {
  if (!is_dead_) {
    core_->OnMessage(from, request_id, std::move(message), Now(), &*held_);
    Commit();
  }
}

void CoordinatorNode::OnClosed(proto::PeerId peer) {
  if (!is_dead_) {
    core_->OnPeerClosed(peer, Now(), &*held_);
    Commit();
  }
}

/// Who connects while there is none is answered by the next one.
proto::Term CoordinatorNode::Term() const {
  const proto::Term term = core_->term() + (is_dead_ ? 1 : 0);
  return world_.sabotage == Sabotage::kEarlierTerm && term > 2 ? 1 : term;
}

void CoordinatorNode::StartServer(uint32_t server, LaunchId launch) {
  world_.fleet->StartServer(server, launch);
  journal_->NoteStarted(RecordOf(proto::ProcessKind::kServer, server, launch));
}

void CoordinatorNode::StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) {
  world_.fleet->StartWorker(seat, launch, group);
  journal_->NoteStarted(RecordOf(proto::ProcessKind::kWorker, seat.value, launch));
}

void CoordinatorNode::Commit() {
  const TimePoint now = Now();
  if (!is_unwritten_) {
    journal_->Write(core_->TakeRows(now, journal_->WantsAll(now)), now);
  }
  world_.on_event();
  if (++events_ % kCheckEvery == 0) {
    CheckNow();
  }
  if (!death_ || held_->is_empty()) {
    held_->Release();
    return;
  }
  const Death death = *std::exchange(death_, std::nullopt);
  if (!death.is_before_sending) {
    held_->Release();
  }
  is_dead_ = true;  // it is in the middle of a delivery
  world_.queue->After({}, [this, pause = death.pause, run = run_] {
    if (run == run_) {
      Die(pause);
    }
  });
}

/// A journal whose disk has refused rows is behind, and says so.
void CoordinatorNode::CheckNow() {
  if (is_unwritten_) {
    return;
  }
  const Status status = coordinator::CheckJournal(journal_.get(), *core_, Now());
  is_behind_ = !status.ok() && !journal_->trouble().empty();
  if (!status.ok() && !is_behind_) {
    world_.violations->push_back("the journal: " + status.ToString());
  }
}

void CoordinatorNode::Restart(Duration pause) {
  const uint64_t how = world_.random->Below(3);
  world_.network->WhenAwake(node_, [this, pause, how] {
    if (core_->is_finished() || is_dead_) {
      return;
    }
    if (how == 0) {
      Die(pause);
    } else {
      death_ = {pause, how == 1};
    }
  });
}

void CoordinatorNode::Freeze(Duration how_long, Duration pause) {
  world_.network->WhenAwake(node_, [this, how_long, pause] {
    if (core_->is_finished() || is_dead_) {
      return;
    }
    // Before whatever waits for it to wake.
    world_.queue->After(how_long, [this, pause, run = run_] {
      if (run != run_ || is_dead_) {
        return;
      }
      if (world_.sabotage != Sabotage::kSpeaksInVain) {
        Die(pause);
        return;
      }
      is_unwritten_ = true;
      world_.queue->After(kLastWords, [this, pause] { Die(pause); });
    });
    world_.network->Pause(node_, how_long);
  });
}

void CoordinatorNode::Die(Duration pause) {
  is_dead_ = true;
  died_at_ = Now();
  world_.log->Info("coordinator_ends", {{"pause_s", Seconds(pause)}});
  CheckNow();
  world_.on_end();
  world_.network->CloseAll(node_);
  world_.network->Pause(node_, pause);
  world_.queue->After(pause, [this, run = run_] { GoOn(run); });
}

void CoordinatorNode::EndRun() {
  is_dead_ = true;
  has_no_run_ = true;
  death_.reset();
  ++run_;
  world_.on_end();
  world_.network->CloseAll(node_);
}

Status CoordinatorNode::BeginRun() {
  clock_ = NodeClock(world_.queue, ClockAheadOf(*world_.scenario, ++processes_));
  journal_.reset();
  is_told_behind_ = false;
  PS_TRY(OpenJournal());
  is_behind_ = false;
  may_be_behind_ = false;
  is_refused_ = false;
  BeginOutput();
  core_ = std::make_unique<coordinator::CoordinatorCore>(Options(), &*held_, world_.log);
  is_dead_ = false;
  has_no_run_ = false;
  Start();
  return Status::Ok();
}

void CoordinatorNode::GoOn(uint64_t run) {
  if (run != run_) {
    return;
  }
  is_unwritten_ = false;
  journal_.reset();
  clock_ = NodeClock(world_.queue, ClockAheadOf(*world_.scenario, ++processes_));
  if (const Status status = OpenJournal(); status.code() == StatusCode::kIo) {
    world_.network->Pause(node_, kTryAgain);
    world_.queue->After(
        kTryAgain, [this, run] { GoOn(run); });  // whoever starts it does, for a while
    return;
  } else if (!status.ok()) {
    is_refused_ = true;
    world_.log->Info("journal_refused", {{"why", status}});
    if (!may_be_behind_) {
      world_.violations->push_back("a whole journal is refused: " + status.ToString());
    }
    return;
  }
  BeginOutput();
  auto recovered = journal_->Recover();
  PS_CHECK(recovered.ok() && *recovered) << recovered.status();
  if (is_behind_) {
    world_.violations->push_back("a coordinator goes on from a journal that fell behind");
  }
  const coordinator::CoordinatorOptions options = Options();
  proto::JobState state = (*recovered)->state;
  TakeCheckpointsOf(options, &state);
  const bool is_mistaken = world_.sabotage == Sabotage::kSharedClock;
  auto loaded = coordinator::CoordinatorCore::Load(
      std::move(state), options, &*held_, world_.log, is_mistaken ? died_at_ : Now());
  if (!loaded.ok()) {
    world_.violations->push_back("the recovered state: " + loaded.status().ToString());
    return;
  }
  core_ = std::move(loaded).value();
  is_dead_ = false;
  core_->StartMissing((*recovered)->launches, Now());
  Commit();
}

}  // namespace ps::sim
