#include "run/report/run_events.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "ps/base/text.h"
#include "run/report/metric_text.h"
#include "run/report/summary.h"
#include "run/report/tables.h"

namespace ps::run {
namespace {

uint64_t SamplesReturned(const proto::JobStatus& status) {
  uint64_t n = 0;
  for (const proto::LedgerRow& row : status.ledger) {
    n += row.samples_returned;
  }
  return n;
}

std::string HowItWent(const proto::WorkerRow& row) {
  const std::string who = fmt::format("worker {}", row.worker.value);
  if (row.state == proto::WorkerRowState::kLost) {
    return who + " lost (no notice)";
  }
  if (row.state == proto::WorkerRowState::kFailed) {
    const std::string when = row.samples_counted == 0
                                 ? " failed before it had done a step"
                                 : fmt::format(" failed after {} samples", row.samples_counted);
    return who + when + (row.reason.empty() ? "" : ": " + Printable(row.reason));
  }
  return who + (row.state == proto::WorkerRowState::kDrained ? " left on notice" : " left");
}

}  // namespace

uint64_t ChunksOverflowed(const proto::JobStatus& status) {
  uint64_t n = 0;
  for (const proto::ShardRow& row : status.shards) {
    n += row.stats.chunks_overflowed;
  }
  return n;
}

size_t CountWorkers(const proto::JobStatus& status) {
  return static_cast<size_t>(std::ranges::count_if(status.workers, [](const auto& row) {
    return row.incarnation != Incarnation() && !row.is_gone();
  }));
}

std::string WorkersText(const proto::JobStatus& status) {
  const size_t alive = CountWorkers(status);
  const bool has_more = alive > status.workers_wanted;
  return std::to_string(alive) + (has_more ? "" : fmt::format("/{}", status.workers_wanted));
}

/// Whether two texts say the same but for their numbers: a countdown is no news.
bool SaysTheSame(std::string before, std::string now) {
  const auto is_of_number = [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; };
  std::erase_if(before, is_of_number);
  std::erase_if(now, is_of_number);
  return before == now;
}

std::string WaitingText(const proto::JobStatus& status) {
  std::string text;
  for (const proto::FleetRow& row : status.fleet) {
    if (row.waiting > 0) {
      text += fmt::format(
          "{}{} of {} for {}: {}",
          text.empty() ? "" : "; ",
          Plural(row.waiting, "worker"),
          Printable(row.type),
          FormatDuration(row.wait_s),
          Printable(row.why));
    }
  }
  return text;
}

std::string StepsOfSamples(uint64_t steps, uint64_t samples) {
  return Plural(steps, "step") + " of " + Plural(samples, "sample");
}

std::string UndoneText(const proto::CheckpointStatus& status) {
  if (status.shards_restored == 0 && status.rollbacks == 0 && status.steps_undone == 0) {
    return "";
  }
  return StepsOfSamples(status.steps_undone, status.samples_undone) +
         " that had counted, with servers that were lost";
}

namespace {

uint64_t SamplesWithout(uint64_t counted, const std::vector<proto::WorkerRow>& rows) {
  for (const proto::WorkerRow& row : rows) {
    counted -= std::min(counted, row.samples_counted);
  }
  return counted;
}

}  // namespace

uint64_t SamplesElsewhere(const proto::JobStatus& status) {
  return SamplesWithout(status.samples_counted, status.workers);
}

std::string ElsewhereText(const ShownWorkers& shown) {
  return shown.samples_elsewhere == 0
             ? ""
             : FormatCount(shown.samples_elsewhere) +
                   " samples are of workers that are not in the table: of before a resume, or "
                   "gone\n";
}

ShownWorkers ChooseWorkers(const proto::JobStatus& status, size_t gone_max) {
  ShownWorkers shown;
  std::vector<proto::WorkerRow> gone;
  for (const proto::WorkerRow& row : status.workers) {
    (row.is_gone() ? gone : shown.rows).push_back(row);
  }
  const auto by_seat = [](const proto::WorkerRow& a, const proto::WorkerRow& b) {
    return std::pair(a.worker, a.incarnation) < std::pair(b.worker, b.incarnation);
  };
  std::sort(shown.rows.begin(), shown.rows.end(), by_seat);
  std::sort(gone.begin(), gone.end(), [](const auto& a, const auto& b) {
    return a.incarnation > b.incarnation;
  });
  shown.hidden = gone.size() - std::min(gone.size(), gone_max);
  gone.resize(gone.size() - shown.hidden);
  std::sort(gone.begin(), gone.end(), by_seat);
  shown.rows.insert(shown.rows.end(), gone.begin(), gone.end());
  shown.samples_elsewhere = SamplesWithout(status.samples_counted, shown.rows);
  return shown;
}

uint32_t EpochNow(const proto::JobStatus& status) {
  if (status.epochs == 0 || status.samples_total == 0) {
    return status.epochs;
  }
  const uint64_t per_epoch = std::max<uint64_t>(status.samples_total / status.epochs, 1);
  const uint64_t epoch = status.samples_counted / per_epoch + 1;
  return static_cast<uint32_t>(std::min<uint64_t>(epoch, status.epochs));
}

std::vector<std::string> RunEvents::Update(const proto::JobStatus& status) {
  std::vector<std::string> lines;
  AddWorkerEvents(status, &lines);
  AddServerEvents(status, &lines);
  AddCheckpointEvents(status.checkpoints, &lines);
  AddCopyEvents(status.copies, &lines);
  AddStateEvents(status, &lines);
  return lines;
}

void RunEvents::AddWorkerEvents(const proto::JobStatus& status, std::vector<std::string>* lines) {
  const bool is_first = !state_ || state_ == proto::RunState::kStarting;
  const bool went_back = status.checkpoints.rollbacks > checkpoints_.rollbacks;
  const bool is_over =
      status.state == proto::RunState::kDone || status.state == proto::RunState::kStopped;
  for (const proto::WorkerRow& row : status.workers) {
    if (went_back && row.state == proto::WorkerRowState::kLeft &&
        !std::exchange(is_gone_[row.incarnation], true)) {
      returning_.insert(row.worker);
    }
  }
  std::vector<std::string> gone;
  std::vector<std::string> joined;  // told last: one may take the seat of one that is gone
  for (const proto::WorkerRow& row : status.workers) {
    if (row.incarnation == Incarnation()) {
      continue;  // a seat that nobody has taken yet
    }
    const auto [it, is_new] = is_gone_.emplace(row.incarnation, false);
    if (is_new && !is_first && returning_.erase(row.worker) == 0) {
      joined.push_back(fmt::format("worker {} joined", row.worker.value));
    }
    if (row.is_gone() && !it->second) {
      it->second = true;
      gone.push_back(HowItWent(row));
    }
  }
  if (workers_wanted_ && *workers_wanted_ != status.workers_wanted) {
    lines->push_back(fmt::format(
        "{} wanted, {} before", Plural(status.workers_wanted, "worker"), *workers_wanted_));
  }
  workers_wanted_ = status.workers_wanted;
  const uint64_t returned = SamplesReturned(status);
  for (size_t i = 0; i < gone.size() && !is_over; ++i) {
    const bool is_last = i + 1 == gone.size();
    const uint64_t back = returned - std::min(returned, samples_returned_);
    lines->push_back(
        gone[i] +
        (is_last && back > 0 ? ", " + Plural(back, "sample") + " back in the queue" : ""));
  }
  lines->insert(lines->end(), joined.begin(), joined.end());
  samples_returned_ = returned;
}

void RunEvents::AddServerEvents(const proto::JobStatus& status, std::vector<std::string>* lines) {
  for (const proto::ShardRow& row : status.shards) {
    if (row.state != proto::ShardRowState::kLeaving) {
      leaving_.erase(row.shard);
    } else if (leaving_.insert(row.shard).second) {
      lines->push_back(fmt::format(
          "server shard {} has a notice: a checkpoint is made, then its server leaves and comes "
          "back from it",
          row.shard.value));
    }
  }
  AddMoveEvents(status.servers, lines);
  const std::string& trouble = status.journal.trouble;
  if (!trouble.empty() && !is_journal_told_) {
    lines->push_back(
        "WARNING: the journal can't be written: " + Printable(trouble) +
        "; training goes on, but another coordinator could not if this one is killed");
  } else if (trouble.empty() && is_journal_told_) {
    lines->push_back("the journal is written again");
  }
  is_journal_told_ = !trouble.empty();
}

void RunEvents::AddMoveEvents(const proto::ServersStatus& status, std::vector<std::string>* lines) {
  const bool is_known = servers_.count != 0;
  if (is_known && status.wanted != servers_.wanted && status.trouble == servers_.trouble) {
    lines->push_back(
        fmt::format("{} wanted, {} before", Plural(status.wanted, "server"), servers_.wanted));
  }
  if (is_known && status.shares != servers_.shares) {
    lines->push_back("the shares of the servers are to be " + proto::SharesText(status.shares));
  }
  if (is_known && status.moves > servers_.moves) {
    lines->push_back("all chunks are on " + Plural(status.count, "server") + " now");
  }
  if (!status.trouble.empty() && status.trouble != servers_.trouble) {
    lines->push_back("WARNING: the run goes on with " + Printable(status.trouble));
  }
  servers_ = status;
}

void RunEvents::AddCheckpointEvents(
    const proto::CheckpointStatus& status, std::vector<std::string>* lines) {
  if (status.damaged > checkpoints_.damaged) {
    lines->push_back(
        "WARNING: a checkpoint can't be restored and was given up for an older one: " +
        Printable(status.damage));
  }
  const uint64_t steps = status.steps_undone - checkpoints_.steps_undone;
  const uint64_t samples = status.samples_undone - checkpoints_.samples_undone;
  if (status.rollbacks > checkpoints_.rollbacks) {
    const std::string to =
        status.newest == 0 ? "the beginning" : fmt::format("checkpoint {}", status.newest);
    lines->push_back(
        "a server was lost, and all went back to " + to + ": " + StepsOfSamples(steps, samples) +
        ", " + FormatDuration(status.seconds_undone - checkpoints_.seconds_undone) +
        " of training, are done again");
  }
  if (const uint64_t lost = status.shards_restored - checkpoints_.shards_restored; lost > 0) {
    const std::string from =
        status.newest == 0 ? "the initial values" : fmt::format("checkpoint {}", status.newest);
    lines->push_back(
        Plural(lost, "server shard") + " lost; back from " + from + ", without the updates of " +
        StepsOfSamples(steps, samples));
  } else if (steps > 0 && status.rollbacks == checkpoints_.rollbacks) {
    lines->push_back(
        StepsOfSamples(steps, samples) +
        (steps == 1 ? " more was undone: a server that was lost had it"
                    : " more were undone: a server that was lost had them"));
  }
  if (status.failed > checkpoints_.failed) {
    lines->push_back(
        "a checkpoint failed" + (status.trouble.empty() ? "" : ": " + Printable(status.trouble)) +
        "; training goes on");
  }
  if (status.skipped > 0 && checkpoints_.skipped == 0) {
    lines->push_back(
        "a checkpoint was skipped: the one before is still being written; raise "
        "checkpoint.every_s, or use a faster disk");
  }
  checkpoints_ = status;
}

void RunEvents::AddCopyEvents(const proto::CopyStatus& status, std::vector<std::string>* lines) {
  const std::string target = Printable(status.target);
  if (!status.trouble.empty() && status.trouble != copies_.trouble) {
    lines->push_back(
        "checkpoints are not copied to " + target + ": " + Printable(status.trouble) +
        "; training goes on, and the next checkpoint tries again");
  }
  if (status.trouble.empty() && !copies_.trouble.empty()) {
    lines->push_back(
        fmt::format("checkpoints are copied to {} again, up to {}", target, status.newest));
  }
  copies_ = status;
}

void RunEvents::AddStateEvents(const proto::JobStatus& status, std::vector<std::string>* lines) {
  if (status.state == proto::RunState::kTraining &&
      (!state_ || state_ == proto::RunState::kStarting)) {
    lines->push_back(
        "training begins with " + Plural(CountWorkers(status), "worker") + " and " +
        Plural(status.shards.size(), "server shard"));
  } else if (
      status.state == proto::RunState::kTraining &&
      (state_ == proto::RunState::kWaiting || state_ == proto::RunState::kPaused)) {
    lines->push_back("training goes on");
  }
  const bool is_told = state_ == status.state && SaysTheSame(detail_, status.detail);
  if (status.has_diverged && !is_told) {
    lines->push_back(Printable(status.detail));
  }
  if (mode_ && *mode_ != status.modes.in_force) {
    lines->push_back(
        "mode " + proto::ModeText(status.modes.in_force) + " from now on, " +
        proto::ModeText(*mode_) + " before");
  }
  mode_ = status.modes.in_force;
  if (status.state == proto::RunState::kPaused && state_ != proto::RunState::kPaused) {
    lines->push_back("paused: workers finish what they have and wait; psctl continue goes on");
  }
  if (status.state == proto::RunState::kWaiting && !is_told) {
    lines->push_back("waiting: " + Printable(status.detail));
  }
  evaluations_ = std::min(evaluations_, status.evaluations.size());
  for (; evaluations_ < status.evaluations.size(); ++evaluations_) {
    const proto::EvaluationRow& row = status.evaluations[evaluations_];
    const bool is_last =
        status.has_last_evaluation && evaluations_ + 1 == status.evaluations.size();
    lines->push_back(fmt::format(
        "{}epoch {} of {}: {} {} {}, loss {}, after {}",
        is_last ? "the model that is left, after " : "",
        row.epoch,
        status.epochs,
        EvaluatedOn(status, evaluations_),
        MetricTitle(status.metric),
        FormatMetric(status.metric, row.accuracy, 2),
        FormatLoss(row.loss),
        FormatDuration(row.at_s)));
  }
  // Both once, and whenever they have doubled: a run that diverges has some with every step.
  if (status.samples_rejected > 2 * samples_rejected_) {
    lines->push_back(
        Plural(status.samples_rejected, "sample") +
        " gave a gradient that is not finite and were left out" +
        (samples_rejected_ == 0 ? "; if it goes on, training diverges: try a smaller optimizer.lr"
                                : ""));
    samples_rejected_ = status.samples_rejected;
  }
  if (const uint64_t overflowed = ChunksOverflowed(status); overflowed > 2 * chunks_overflowed_) {
    chunks_overflowed_ = overflowed;
    lines->push_back(
        Plural(overflowed, "update") +
        " of a chunk would have made parameters infinite and left them as they were; training "
        "diverges: try a smaller optimizer.lr or optimizer.clip_norm");
  }
  state_ = status.state;
  detail_ = status.detail;
}

}  // namespace ps::run
