// What a person may want to know: the job's state in one structure, and who waits for whom.

#include <algorithm>
#include <string>
#include <utility>

#include "ps/coordinator/coordinator_core.h"

namespace ps::coordinator {
namespace {

std::string StateOf(LeaveKind kind) {
  switch (kind) {
    case LeaveKind::kLost:
      return "lost";
    case LeaveKind::kDrained:
      return "drained";
    case LeaveKind::kLeft:
      return "left";
  }
  return "?";
}

std::string StateOf(const Member& member) {
  if (!member.is_admitted || !member.is_heard) {
    return "joining";
  }
  switch (member.state) {
    case proto::WorkerState::kJoining:
      return "joining";
    case proto::WorkerState::kComputing:
      return "computing";
    case proto::WorkerState::kWaiting:
      return "waiting";
    case proto::WorkerState::kDraining:
      return "draining";
  }
  return "?";
}

std::string Name(WorkerId seat) {
  return "w" + std::to_string(seat.value);
}

void Append(std::string* list, const std::string& item) {
  *list += (list->empty() ? "" : ", ") + item;
}

}  // namespace

std::string CoordinatorCore::StateName() const {
  switch (phase_) {
    case Phase::kStarting:
      return "starting";
    case Phase::kTraining:
    case Phase::kStopping:
      return membership_.members().empty() && phase_ == Phase::kTraining ? "waiting" : "training";
    case Phase::kLeaving:
    case Phase::kFinished:
      if (outcome_.ok()) {
        return "done";
      }
      return outcome_.code() == StatusCode::kCancelled ? "stopped" : "failed";
  }
  return "?";
}

std::string CoordinatorCore::Detail() const {
  if (!IsWorking()) {
    return outcome_.ok() ? "" : std::string(outcome_.message());
  }
  if (phase_ == Phase::kStopping) {
    return "stopping: workers hand over what they have done";
  }
  if (phase_ == Phase::kTraining) {
    return membership_.members().empty()
               ? "no worker is left; training goes on as soon as one joins"
               : (evaluations_.is_pending() && ledger_.is_complete() ? "last evaluation" : "");
  }
  if (!shards_.are_all_ready()) {
    return "waiting for " + shards_.Missing();
  }
  std::string missing;
  for (const WorkerId seat : seats_.expected()) {
    Append(&missing, Name(seat));
  }
  for (const auto& [seat, end] : seats_.ends()) {
    Append(&missing, Name(seat) + " (" + end + ")");
  }
  return "waiting for workers: " + missing;
}

proto::WorkerRow CoordinatorCore::RowOf(const Member& member, TimePoint now) const {
  proto::WorkerRow row;
  row.worker = member.seat;
  row.incarnation = member.incarnation;
  row.state = StateOf(member);
  row.host = member.host;
  row.pid = member.pid;
  row.minibatch = member.minibatch;
  row.slowdown = member.slowdown;
  row.stats = member.stats;
  row.lease = member.last_lease;
  row.silent_s = Seconds(now - member.last_heartbeat);
  row.samples_counted = member.samples_counted;
  for (const Shard& shard : shards_.all()) {
    for (const proto::WorkerAtShard& at : shard.stats.workers) {
      if (at.incarnation == member.incarnation) {
        row.clock = std::max(row.clock, at.clock);
      }
    }
  }
  return row;
}

void CoordinatorCore::AddWorkerRows(TimePoint now, proto::JobStatus* status) const {
  for (const auto& [incarnation, member] : membership_.members()) {
    status->workers.push_back(RowOf(member, now));
  }
  for (const WorkerId seat : seats_.expected()) {
    const auto& members = membership_.members();
    if (std::any_of(members.begin(), members.end(), [&](const auto& entry) {
          return entry.second.seat == seat;
        })) {
      continue;
    }
    proto::WorkerRow row;
    row.worker = seat;
    row.state = "starting";
    row.minibatch = seats_.GroupOf(seat).minibatch;
    row.slowdown = seats_.GroupOf(seat).slowdown;
    status->workers.push_back(row);
  }
  std::sort(status->workers.begin(), status->workers.end(), [](const auto& a, const auto& b) {
    return a.worker < b.worker;  // a seat is there once
  });
  const auto add_gone = [&](const Member& member, LeaveKind kind) {
    status->workers.push_back(RowOf(member, now));
    proto::WorkerRow& row = status->workers.back();
    row.state = StateOf(kind);
    // A lost one did not tell of the steps since its last heartbeat; those counted are known.
    row.stats.steps = std::max(row.stats.steps, member.reported);
  };
  for (const GoneWorker& gone : membership_.gone()) {
    add_gone(gone.member, gone.kind);
  }
  for (const auto& [incarnation, departure] : membership_.departures()) {
    add_gone(departure.member, departure.kind);
  }
}

void CoordinatorCore::AddShardRows(proto::JobStatus* status) const {
  for (const Shard& shard : shards_.all()) {
    proto::ShardRow row;
    row.shard = shard.shard;
    row.pid = shard.pid;
    row.stats = shard.stats;
    if (shard.is_registered) {
      row.address = shard.host + ":" + std::to_string(shard.port);
    }
    if (!shard.is_registered) {
      row.state = "missing";
    } else if (shard.peer == proto::PeerId()) {
      row.state = "silent";
    } else {
      row.state = shard.is_ready ? "ready" : "set up";
    }
    status->shards.push_back(std::move(row));
  }
}

/// "shard 1, shard 3": those that have not acknowledged `generation`.
std::string CoordinatorCore::ShardsBehind(Generation generation) const {
  std::string list;
  for (const Shard& shard : shards_.all()) {
    if (membership_.AcknowledgedBy(shard.shard) < generation) {
      Append(&list, "shard " + std::to_string(shard.shard.value));
    }
  }
  return list;
}

void CoordinatorCore::AddOwnWaits(TimePoint now, proto::JobStatus* status) const {
  const auto add = [&](std::string who,
                       std::string for_whom,
                       std::string what,
                       TimePoint since,
                       Generation generation) {
    status->waits.push_back(
        {std::move(who), std::move(for_whom), std::move(what), Seconds(now - since), generation});
  };
  if (!shards_.are_all_ready()) {
    add("coordinator", shards_.Missing(), "the servers", started_at_, Generation());
  } else if (membership_.members().empty() && phase_ <= Phase::kTraining) {
    add("coordinator",
        "any worker",
        "a worker that joins",
        no_worker_since_,
        membership_.generation());
  }
  for (const auto& [incarnation, departure] : membership_.departures()) {
    if (departure.is_resolved) {
      continue;
    }
    std::string list;
    for (const Shard& shard : shards_.all()) {
      if (!departure.answers.contains(shard.shard)) {
        Append(&list, "shard " + std::to_string(shard.shard.value));
      }
    }
    add("coordinator",
        list,
        "the last step of " + Name(departure.member.seat) + " (incarnation " +
            std::to_string(incarnation.value) + ")",
        departure.since,
        departure.generation);
  }
  if (!rounds_.is_commit_acknowledged()) {
    std::string list;
    for (const Shard& shard : shards_.all()) {
      if (!rounds_.HasAcknowledged(shard.shard)) {
        Append(&list, "shard " + std::to_string(shard.shard.value));
      }
    }
    add("coordinator",
        list,
        "the commit of round " + std::to_string(rounds_.committed()),
        round_since_,
        membership_.generation());
  }
}

void CoordinatorCore::AddWaits(TimePoint now, proto::JobStatus* status) const {
  AddOwnWaits(now, status);
  std::string working;
  for (const auto& [incarnation, member] : membership_.members()) {
    const auto entry = rounds_.entries().find(incarnation);
    const bool is_entered = entry != rounds_.entries().end() && !entry->second.has_contributed;
    if (evaluations_.Find(member.last_lease) != nullptr || is_entered || IsAwaited(member)) {
      Append(&working, Name(member.seat));
    }
  }
  for (const auto& [incarnation, member] : membership_.members()) {
    const std::string me = Name(member.seat);
    if (!member.is_admitted) {
      status->waits.push_back(
          {me,
           ShardsBehind(member.joined),
           "membership " + std::to_string(member.joined.value),
           Seconds(now - member.since),
           member.joined});
    } else if (
        member.wants_lease && is_ssp() && member.is_active &&
        !membership_.IsAcknowledged(member.activated)) {
      status->waits.push_back(
          {me,
           ShardsBehind(member.activated),
           "membership " + std::to_string(member.activated.value),
           Seconds(now - member.wants_since),
           member.wants_generation});
    } else if (member.wants_lease) {
      std::string what = "a lease";
      if (evaluations_.is_pending()) {
        what += " (evaluation under way)";
      } else if (is_bsp()) {
        what += " (round " + std::to_string(rounds_.open_round()) + ")";
      } else if (!HasTrainingWork()) {
        what += " (all samples are leased)";
      }
      status->waits.push_back(
          {me,
           working.empty() ? "coordinator" : working,
           what,
           Seconds(now - member.wants_since),
           member.wants_generation});
    }
    for (proto::Wait wait : member.waits) {
      wait.since_s += Seconds(now - member.last_heartbeat);
      // The coordinator's own view of it, above, says more.
      if (!(member.wants_lease && wait.for_whom == "coordinator")) {
        status->waits.push_back(std::move(wait));
      }
    }
  }
  for (const Shard& shard : shards_.all()) {
    for (proto::Wait wait : shard.waits) {
      wait.since_s += Seconds(now - shard.waits_at);
      status->waits.push_back(std::move(wait));
    }
  }
}

proto::JobStatus CoordinatorCore::StatusAt(TimePoint now) const {
  proto::JobStatus status;
  status.name = options_.config.name;
  status.run_directory = options_.run_directory;
  status.state = StateName();
  status.detail = Detail();
  status.mode = options_.config.train.mode;
  status.epochs = ledger_.epochs();
  status.samples_total = ledger_.samples_total();
  status.samples_counted = ledger_.samples_counted();
  status.samples_rejected = counters_.samples_rejected;
  status.steps_counted = counters_.steps_counted;
  status.steps_lost = counters_.steps_lost;
  status.steps_partial = counters_.steps_partial;
  status.revocations_noticed = counters_.revocations_noticed;
  status.revocations_unnoticed = counters_.revocations_unnoticed;
  status.joins = counters_.joins;
  if (training_began_) {
    status.elapsed_s = Seconds(training_ended_.value_or(now) - *training_began_);
  }
  status.samples_per_s = meter_.SamplesPerSecond();
  if (training_ended_) {
    status.eta_s = 0;
  } else if (status.samples_per_s > 0) {
    status.eta_s = static_cast<double>(ledger_.samples_total() - ledger_.samples_counted()) /
                   status.samples_per_s;
  }
  status.train_loss = meter_.loss();
  status.train_accuracy = meter_.accuracy();
  status.generation = membership_.generation();
  status.round = rounds_.committed();
  status.max_detect_s = Seconds(timing_.detect);
  AddWorkerRows(now, &status);
  AddShardRows(&status);
  for (uint32_t epoch = 0; epoch < ledger_.state().epochs.size(); ++epoch) {
    const EpochRecord& record = ledger_.state().epochs[epoch];
    status.ledger.push_back(
        {epoch,
         ledger_.samples_per_epoch(),
         record.counted.size(),
         ledger_.samples_leased(epoch),
         record.samples_returned});
  }
  status.evaluations = evaluations_.results();
  if (IsWorking()) {
    AddWaits(now, &status);
  }
  return status;
}

}  // namespace ps::coordinator
