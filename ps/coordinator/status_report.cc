#include "ps/coordinator/status_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ps/base/text.h"
#include "ps/coordinator/job_journal.h"
#include "ps/coordinator/wait_report.h"
#include "ps/proto/job/task.h"
#include "ps/proto/limits.h"

namespace ps::coordinator {
namespace {

constexpr size_t kEventsShown = 64;

proto::WorkerRowState StateOf(LeaveKind kind) {
  switch (kind) {
    case LeaveKind::kLost:
      return proto::WorkerRowState::kLost;
    case LeaveKind::kDrained:
      return proto::WorkerRowState::kDrained;
    case LeaveKind::kLeft:
      return proto::WorkerRowState::kLeft;
    case LeaveKind::kFailed:
      break;
  }
  return proto::WorkerRowState::kFailed;
}

proto::WorkerRowState StateOf(const Member& member) {
  if (!member.record->is_admitted || !member.record->is_heard) {
    return proto::WorkerRowState::kJoining;
  }
  switch (member.state) {
    case proto::WorkerState::kJoining:
      break;
    case proto::WorkerState::kComputing:
      return proto::WorkerRowState::kComputing;
    case proto::WorkerState::kWaiting:
      return proto::WorkerRowState::kWaiting;
    case proto::WorkerState::kDraining:
      return proto::WorkerRowState::kDraining;
  }
  return proto::WorkerRowState::kJoining;
}

/// "rounds would take 3.1 times as long with it; tried again in 12 s"
std::string SitOutText(const proto::SitOutRecord& record, Duration age) {
  return fmt::format(
      "rounds would take {:.1f} times as long with it; tried again in {}",
      record.slowdown,
      FormatDuration(std::max(0.0, Seconds(record.until - age))));
}

}  // namespace

/// " (worker 4 failed: exited with code 1)", or nothing.
std::string StatusReport::Failures() const {
  NameList failures;
  for (const auto& [seat, why] : job_->seats.failures()) {
    failures.Add(fmt::format("worker {} failed: {}", seat.value, why));
  }
  return failures.empty() ? "" : " (" + failures.text() + ")";
}

/// When the next worker is started, where that takes a while.
std::string StatusReport::NextStart(TimePoint now) const {
  std::optional<proto::FleetRow> first;
  for (proto::FleetRow& row : job_->FleetRows(now)) {
    if (row.waiting > 0 && (!first || row.wait_s < first->wait_s)) {
      first = std::move(row);
    }
  }
  return first ? fmt::format(
                     "; the next {} is started in {}: {}",
                     first->type,
                     FormatDuration(first->wait_s),
                     first->why)
               : "";
}

/// One that is silent for longer than a worker may be; null: there is none.
const Shard* StatusReport::SilentShard(TimePoint now) const {
  for (const Shard& shard : job_->shards.all()) {
    if (shard.SilenceAt(now) > job_->timing.detect) {
      return &shard;
    }
  }
  return nullptr;
}

proto::RunState StatusReport::StateNow(TimePoint now) const {
  using proto::RunState;
  const Status& outcome = job_->state.outcome;
  switch (job_->state.phase) {
    case JobPhase::kStarting:
      return job_->training_began ? RunState::kWaiting : RunState::kStarting;
    case JobPhase::kTraining:
      return job_->state.checkpoints.is_going_back || job_->membership.members().empty() ||
                     SilentShard(now) != nullptr
                 ? RunState::kWaiting
             : job_->state.pause.is_on ? RunState::kPaused
                                       : RunState::kTraining;
    case JobPhase::kStopping:
      return RunState::kTraining;
    case JobPhase::kLeaving:
    case JobPhase::kFinished:
      break;
  }
  return outcome.ok()                               ? RunState::kDone
         : outcome.code() == StatusCode::kCancelled ? RunState::kStopped
                                                    : RunState::kFailed;
}

std::string StatusReport::GoingBack() const {
  const uint64_t newest = job_->state.checkpoints.newest().checkpoint;
  return "a server was lost, and all go back to " +
         (newest == 0 ? "the beginning" : fmt::format("checkpoint {}", newest));
}

/// "checkpoint 7 has all that was done"; empty: it is not there yet.
std::string StatusReport::PauseCheckpoint() const {
  const uint64_t checkpoint = job_->state.pause.checkpoint;
  const uint64_t newest = job_->state.checkpoints.newest().checkpoint;
  return checkpoint == 0 || newest < checkpoint
             ? ""
             : fmt::format("checkpoint {} has all that was done", newest);
}

std::string StatusReport::Pause() const {
  const std::string goes_on = "; psctl continue goes on";
  if (!job_->is_idle()) {
    return "workers finish what they have" + goes_on;
  }
  if (!checkpoints_->is_on()) {
    return "workers wait; there is no checkpoint of it (checkpoint.enabled)" + goes_on;
  }
  const std::string checkpoint = PauseCheckpoint();
  return (checkpoint.empty() ? "a checkpoint is being made" : checkpoint) + goes_on;
}

/// What is done before the run ends.
std::string StatusReport::Finishing() const {
  const bool is_stop = !job_->state.stop_reason.empty();
  switch (job_->state.finish.step) {
    case proto::FinishStep::kNone:
    case proto::FinishStep::kDone:
      break;
    case proto::FinishStep::kSteps:
      return std::string(is_stop ? "stopping" : "ending early") +
             ": the steps in hand are waited for";
    case proto::FinishStep::kEvaluation:
      return "stopping: the model is evaluated before it is written; psctl stop once more leaves "
             "it "
             "without";
    case proto::FinishStep::kCheckpoint:
      return "ending: checkpoints are completed";
    case proto::FinishStep::kBest:
      return "ending: the servers take the best epoch's model";
    case proto::FinishStep::kTest:
      return "ending: the model is evaluated on the test samples";
  }
  return "ending";
}

/// Who sits out of the rounds, and why; empty: nobody does.
std::string StatusReport::WhoSitsOut(TimePoint now) const {
  NameList out;
  for (const proto::SitOutRecord& record : job_->state.modes.sit_outs) {
    const Member* const member = job_->membership.Find(record.incarnation);
    if (record.is_out && member != nullptr) {
      out.Add(fmt::format(
          "{} ({})", Name(member->record->seat), SitOutText(record, now - job_->started_at)));
    }
  }
  return out.empty() ? "" : "out of the rounds: " + out.text();
}

std::string StatusReport::Detail(TimePoint now) const {
  switch (job_->state.phase) {
    case JobPhase::kLeaving:
    case JobPhase::kFinished:
      return job_->state.model.is_due && job_->state.outcome.ok()
                 ? "saving the model"
                 : std::string(job_->state.outcome.message());
    case JobPhase::kStopping:
      return "stopping: workers hand over what they have done";
    case JobPhase::kTraining:
      if (job_->state.checkpoints.is_going_back) {
        return GoingBack();
      }
      if (const Shard* const silent = SilentShard(now); silent != nullptr) {
        return fmt::format(
            "server {} does not answer; after {:.1f} s of silence (servers.max_detect_s) it counts "
            "as lost",
            job_->shards.ServerOf(silent->shard),
            Seconds(job_->timing.server_detect));
      }
      if (job_->membership.members().empty()) {
        const std::string checkpoint = PauseCheckpoint();
        return "no worker is left" + Failures() + (checkpoint.empty() ? "" : "; ") + checkpoint +
               (job_->state.park.is_on ? ", and the servers are parked" : "") +
               "; training goes on as soon as one joins" + NextStart(now);
      }
      if (job_->is_finishing()) {
        return Finishing();
      }
      if (job_->state.pause.is_on) {
        return Pause();
      }
      if (job_->state.modes.is_holding) {
        return "the mode changes to " + proto::ModeText(job_->state.modes.wanted) +
               ": the steps in hand are waited for";
      }
      if (job_->divergence.has_diverged()) {
        return "training has diverged: " + job_->divergence.why();
      }
      if (!job_->shards.are_all_ready()) {
        return "coming back: " + job_->shards.Missing(now);
      }
      return job_->evaluations.is_pending() && job_->ledger.is_complete() ? "last evaluation"
                                                                          : WhoSitsOut(now);
    case JobPhase::kStarting:
      if (job_->is_finishing()) {
        return Finishing();
      }
      if (job_->training_began && job_->state.checkpoints.rollbacks > 0) {
        return GoingBack();
      }
      break;
  }
  if (!job_->shards.are_all_ready()) {
    return "waiting for " + job_->shards.Missing(now);
  }
  NameList missing;
  for (const WorkerId seat : job_->seats.expected()) {
    missing.Add(Name(seat));
  }
  for (const auto& [seat, why] : job_->seats.failures()) {
    missing.Add(fmt::format("{} ({})", Name(seat), why));
  }
  return missing.empty() ? "waiting for a worker" : "waiting for workers: " + missing.text();
}

proto::WorkerRow StatusReport::RowOf(const MemberRecord& member, const Shown& at_shards) const {
  proto::WorkerRow row;
  row.worker = member.seat;
  row.incarnation = member.incarnation;
  row.host = member.host;
  row.pid = member.pid;
  const uint32_t granted = member.last_grant.minibatch;
  row.minibatch = granted > 0 ? granted : member.minibatch;
  row.slowdown = member.slowdown;
  row.device = member.device;
  row.type = job_->seats.GroupOf(member.seat).type;
  row.usd_per_hour = job_->seats.GroupOf(member.seat).usd_per_hour;
  row.stats = member.stats;
  row.lease = member.last_grant.lease;
  row.samples_counted = member.samples_counted;
  if (const auto at = at_shards.find(member.incarnation); at != at_shards.end()) {
    row.clock = at->second.clock;
    row.staleness = at->second.staleness;
  }
  return row;
}

void StatusReport::AddWorkerRows(TimePoint now, proto::JobStatus* status) const {
  Shown at_shards;
  for (const Shard& shard : job_->shards.all()) {
    for (const proto::WorkerAtShard& at : shard.stats.workers) {
      AtShards& highest = at_shards[at.incarnation];
      highest.clock = std::max(highest.clock, at.clock);
      highest.staleness = std::max(highest.staleness, at.staleness);
    }
  }
  std::set<WorkerId> seats;
  for (const auto& [incarnation, member] : job_->membership.members()) {
    proto::WorkerRow row = RowOf(*member.record, at_shards);
    row.state = StateOf(member);
    const proto::SitOutRecord* const sit_out = job_->SitOutOf(incarnation);
    if (sit_out != nullptr && !job_->ledger.HasLease(incarnation)) {
      row.state = proto::WorkerRowState::kSitsOut;
      row.reason = SitOutText(*sit_out, now - job_->started_at);
    }
    row.silent_s = Seconds(now - member.last_heartbeat);
    row.age_s = member.record->began ? Seconds(now - job_->started_at - *member.record->began) : 0;
    if (!job_->is_working()) {
      row.stats.steps = member.record->reported;
    }
    seats.insert(row.worker);
    status->workers.push_back(std::move(row));
  }
  for (const WorkerId seat : job_->seats.expected()) {
    if (seats.contains(seat)) {
      continue;
    }
    proto::WorkerRow row;
    row.worker = seat;
    row.state = proto::WorkerRowState::kStarting;
    row.minibatch = job_->seats.GroupOf(seat).minibatch;
    row.slowdown = job_->seats.GroupOf(seat).slowdown;
    row.device = job_->seats.GroupOf(seat).device;
    row.type = job_->seats.GroupOf(seat).type;
    row.usd_per_hour = job_->seats.GroupOf(seat).usd_per_hour;
    status->workers.push_back(row);
  }
  std::sort(status->workers.begin(), status->workers.end(), [](const auto& a, const auto& b) {
    return a.worker < b.worker;  // a seat is there once
  });
  const auto add_gone = [&](const MemberRecord& member, LeaveKind kind, const std::string& reason) {
    proto::WorkerRow row = RowOf(member, at_shards);
    row.state = StateOf(kind);
    row.reason = reason;
    row.stats.steps = member.reported;  // those that count, whatever its last heartbeat said
    status->workers.push_back(std::move(row));
  };
  for (const GoneWorker& gone : job_->membership.gone()) {
    add_gone(gone.member, gone.kind, gone.reason);
  }
  for (const auto& [incarnation, departure] : job_->membership.departures()) {
    const DepartureRecord& record = *departure.record;
    add_gone(record.member, record.kind, record.reason);
  }
}

void StatusReport::AddShardRows(proto::JobStatus* status) const {
  for (const Shard& shard : job_->shards.all()) {
    const ShardRecord& record = *shard.record;
    proto::ShardRow row;
    row.shard = shard.shard;
    row.pid = record.pid;
    row.stats = shard.stats;
    row.received_bytes_per_s = shard.received_bytes_per_s;
    row.sent_bytes_per_s = shard.sent_bytes_per_s;
    if (record.is_registered) {
      row.address = fmt::format("{}:{}", record.host, record.port);
    }
    if (job_->state.park.is_on) {
      row.state = proto::ShardRowState::kParked;
    } else if (!record.is_registered) {
      row.state = proto::ShardRowState::kMissing;
    } else if (shard.peer == proto::PeerId()) {
      row.state = proto::ShardRowState::kSilent;
    } else if (job_->state.handovers.contains(job_->shards.ServerOf(shard.shard))) {
      row.state = proto::ShardRowState::kLeaving;
    } else {
      row.state = record.is_ready ? proto::ShardRowState::kReady : proto::ShardRowState::kSetUp;
    }
    status->shards.push_back(std::move(row));
  }
}

/// The newest evaluation's, then the members': who come and go have each the same weight.
std::vector<proto::Figure> StatusReport::Figures() const {
  struct Sum {
    double value = 0;
    int count = 0;
  };

  std::map<std::string, Sum> sums;
  for (const auto& [incarnation, member] : job_->membership.members()) {
    for (const proto::Figure& figure : member.figures) {
      if (!std::isfinite(figure.value)) {
        continue;
      }
      sums[figure.name].value += figure.value;
      ++sums[figure.name].count;
    }
  }
  std::vector<proto::Figure> figures = job_->evaluations.NewestFigures();
  for (const auto& [name, sum] : sums) {
    figures.push_back({name, sum.value / sum.count});
  }
  figures.resize(std::min(figures.size(), proto::kFiguresMax));
  return figures;
}

proto::JobStatus StatusReport::TotalsAt(TimePoint now) const {
  const SampleLedger& ledger = job_->ledger;
  const proto::JobCounters& counters = job_->state.counters;
  proto::JobStatus status;
  status.name = job_->options.config.name;
  status.run_directory = job_->options.run_directory;
  status.state = StateNow(now);
  status.has_diverged = status.state == proto::RunState::kTraining &&
                        job_->state.phase == JobPhase::kTraining && !job_->state.modes.is_holding &&
                        job_->divergence.has_diverged();
  status.detail = Detail(now);
  status.model_file = job_->state.model.file;
  status.model_problem = job_->state.model.problem;
  status.modes = job_->ModesNow();
  status.steps = job_->StepsNow();
  status.figures = Figures();
  status.metric = proto::MetricOf(proto::TaskOf(job_->options.config.model));
  status.mode = status.modes.in_force.mode;
  status.epochs = ledger.epochs();
  status.samples_total = ledger.samples_total();
  status.samples_counted = ledger.samples_counted();
  status.samples_rejected = counters.samples_rejected;
  status.steps_counted = counters.steps_counted;
  status.steps_lost = counters.steps_lost;
  status.steps_partial = counters.steps_partial;
  status.revocations_noticed = counters.revocations_noticed;
  status.revocations_unnoticed = counters.revocations_unnoticed;
  status.joins = counters.joins;
  if (job_->training_began) {
    status.elapsed_s = Seconds(job_->training_ended.value_or(now) - *job_->training_began);
  }
  status.samples_per_s = job_->meter.SamplesPerSecond();
  if (job_->training_ended) {
    status.eta_s = 0;
  } else if (
      status.samples_per_s > 0 && !job_->state.pause.is_on && !job_->is_finishing() &&
      job_->state.phase != JobPhase::kStopping) {
    status.eta_s = static_cast<double>(ledger.samples_total() - ledger.samples_counted()) /
                   status.samples_per_s;
  }
  status.train_loss = job_->meter.loss();
  status.train_accuracy = job_->meter.accuracy();
  status.generation = job_->membership.generation();
  status.round = job_->rounds.committed();
  status.max_detect_s = Seconds(job_->timing.detect);
  status.server_max_detect_s = Seconds(job_->timing.server_detect);
  for (const uint32_t count : job_->state.wanted) {
    status.workers_wanted += count;
  }
  status.servers = job_->ServersNow();
  for (uint32_t epoch = 0; epoch < ledger.state().epochs.size(); ++epoch) {
    const EpochRecord& record = ledger.state().epochs[epoch];
    status.ledger.push_back(
        {epoch,
         ledger.samples_per_epoch(),
         record.counted.size(),
         ledger.samples_leased(epoch),
         record.samples_returned});
  }
  status.evaluations = job_->evaluations.results();
  // Before that it may be of a model in whose place another one is left.
  if (const std::optional<proto::EvaluationRow>& last = job_->evaluations.last();
      last && job_->state.finish.step >= proto::FinishStep::kTest) {
    status.evaluations.push_back(*last);
    status.has_last_evaluation = true;
  }
  status.validation_samples = job_->options.validation_samples;
  status.stopped_early = job_->state.finish.is_early ? job_->state.finish.why : "";
  status.usd_spent = job_->cost.usd();
  status.usd_per_hour = job_->is_working() ? job_->UsdPerHour() : 0;
  const proto::TrafficRecord& traffic = job_->state.traffic;
  status.traffic.usd = traffic.usd;
  status.traffic.usd_per_hour = job_->is_working() ? job_->traffic.UsdPerHour(now) : 0;
  status.traffic.bytes = traffic.pushed_bytes + traffic.pulled_bytes;
  status.checkpoints = checkpoints_->StatusAt(now);
  best_->AddTo(&status.checkpoints);
  status.journal.restarts = job_->state.restarts;
  if (const JobJournal* const journal = job_->options.journal; journal != nullptr) {
    status.journal.is_on = true;
    status.journal.failures = journal->failures();
    status.journal.trouble = journal->trouble();
  }
  return status;
}

proto::JobStatus StatusReport::At(TimePoint now) const {
  proto::JobStatus status = TotalsAt(now);
  status.fleet = job_->FleetRows(now);
  AddWorkerRows(now, &status);
  AddShardRows(&status);
  const std::deque<proto::EventRow>& events = job_->state.events.last;
  const size_t count = std::min(events.size(), kEventsShown);
  status.events.assign(events.end() - static_cast<std::ptrdiff_t>(count), events.end());
  if (job_->is_working()) {
    status.waits = WaitReport(job_, leases_).At(now);
  }
  return status;
}

}  // namespace ps::coordinator
