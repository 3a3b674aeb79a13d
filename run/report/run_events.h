#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/proto/messages.h"

namespace ps::run {

/// Workers that take part.
size_t CountWorkers(const proto::JobStatus& status);

/// "3/4": those that take part, of those that the config wants. "5": there are more than that.
std::string WorkersText(const proto::JobStatus& status);

/// "2 workers of slow for 9m 50s: zone a: ...": who can't be started before then, and why. Empty:
/// nobody.
std::string WaitingText(const proto::JobStatus& status);

/// Updates of chunks, of all shards, of which elements were left out because they would not have
/// stayed finite.
uint64_t ChunksOverflowed(const proto::JobStatus& status);

/// "353 steps of 11,296 samples".
std::string StepsOfSamples(uint64_t steps, uint64_t samples);

/// What was counted and then lost with servers, alone or all together: the one line that says it,
/// the same in the summary and in the status. Empty: no server was lost.
std::string UndoneText(const proto::CheckpointStatus& status);

/// The rows of a table: workers that take part, by seat, then the newest of those that are gone.
struct ShownWorkers {
  std::vector<proto::WorkerRow> rows;
  size_t hidden = 0;  // gone ones that are left out
  // Counted, and of no row: what workers of before a resume, and gone ones that are not shown or
  // not known any more, have done. With it the rows add up to the run's samples.
  uint64_t samples_elsewhere = 0;
};

/// Why the rows do not add up, as a line; empty where they do.
std::string ElsewhereText(const ShownWorkers& shown);

/// Samples that are counted and of no row of the status.
uint64_t SamplesElsewhere(const proto::JobStatus& status);

ShownWorkers ChooseWorkers(const proto::JobStatus& status, size_t gone_max);

/// The epoch that is being trained, from 1 to status.epochs.
uint32_t EpochNow(const proto::JobStatus& status);

/// Tells what happened between one status and the next, as lines for people.
class RunEvents {
 public:
  std::vector<std::string> Update(const proto::JobStatus& status);

 private:
  void AddWorkerEvents(const proto::JobStatus& status, std::vector<std::string>* lines);
  void AddCheckpointEvents(const proto::CheckpointStatus& status, std::vector<std::string>* lines);
  void AddCopyEvents(const proto::CopyStatus& status, std::vector<std::string>* lines);
  void AddServerEvents(const proto::JobStatus& status, std::vector<std::string>* lines);
  void AddMoveEvents(const proto::ServersStatus& status, std::vector<std::string>* lines);
  void AddStateEvents(const proto::JobStatus& status, std::vector<std::string>* lines);

  std::map<Incarnation, bool> is_gone_;  // every incarnation seen
  std::set<WorkerId> returning_;         // the job went back: they come again, and nothing is said
  std::set<ShardId> leaving_;            // shards whose servers have a notice
  bool is_journal_told_ = false;         // that it can't be written
  std::optional<proto::RunState> state_;
  std::string detail_;
  size_t evaluations_ = 0;
  uint64_t samples_rejected_ = 0;
  uint64_t chunks_overflowed_ = 0;
  uint64_t samples_returned_ = 0;
  std::optional<uint32_t> workers_wanted_;
  proto::CheckpointStatus checkpoints_;
  proto::CopyStatus copies_;
  proto::ServersStatus servers_;
  std::optional<proto::ModeChoice> mode_;
};

}  // namespace ps::run
