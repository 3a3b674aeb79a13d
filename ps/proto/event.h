#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/logger.h"

namespace ps::proto {

/// What an event is about.
enum class EventKind : uint8_t {
  kRun,
  kRecovery,
  kWait,
  kScale,
  kReplace,
  kGiveUp,
  kJoin,
  kLeave,
  kRevocation,
  kNotice,
  kCheckpoint,
  kPause,
  kMode,
  kStraggler,
  kPlan,
  kPolicy,
};

/// "run", "give-up", ...
std::string_view EventKindName(EventKind kind);

/// What has happened in a run, or was decided. event.cc has the log's name of each, and what it
/// says to people.
enum class EventCode : uint8_t {
  kJobStarted,
  kJobResumed,
  kTrainingBegins,
  kWorkersMissing,
  kScaled,
  kFleetStart,
  kFleetWaits,
  kTypeLeftOut,
  kNoHost,
  kProcessNotStarted,
  kFleetCancel,
  kFleetRelease,
  kServersScaled,
  kChunksPinned,
  kServersMove,
  kServersMoved,
  kChunksMoved,
  kChunksWait,
  kShardsChanged,
  kServersNotScaled,
  kNoSeatLeft,
  kWorkerNeverJoined,
  kWorkerLostAgain,
  kNoRoomForWorker,
  kWorkerJoins,
  kWorkerReconnected,
  kWorkerLost,
  kWorkerLeft,
  kWorkerFailed,
  kNoticeGiven,
  kReleaseAsked,
  kFaultNotice,
  kFaultKill,
  kFaultAdd,
  kServerNotice,
  kSuccessorStarted,
  kSuccessorEnded,
  kHandoverInHaste,
  kPrewarm,
  kServerLost,
  kServerStartFailed,
  kShardIsBack,
  kServersParked,
  kServersWoken,
  kWentBack,
  kStepsUndone,
  kCheckpoint,
  kCheckpointSkipped,
  kCheckpointFailed,
  kCopyFailed,
  kCheckpointDamaged,
  kNoLastCheckpoint,
  kEndWithoutAnswer,
  kPaused,
  kContinued,
  kModeWanted,
  kModeSwitched,
  kWorkerSitsOut,
  kWorkerBackInRounds,
  kReplan,
  kReplanFailed,
  kReplanRefused,
  kPolicy,
  kPolicyRefused,
  kTrainingDiverged,
  kEpochComplete,
  kCoordinatorStalled,
  kStopRequested,
  kJobFailed,
  kJournalFailed,
  kModelSaved,
  kModelNotSaved,
  kFinished,
  kSettingsChanged,
  kMachineRented,
  kMachineLost,
  kBudgetSpent,
  kMachinesLeft,
  kStoppedEarly,
  kBestEpoch,
  kBestTaken,
  kBestLost,
  kNotEvaluated,
  kNoticeIgnored,
  kLossSpike,
  kLossIsBack,
  kTrainingStalled,
  kStalenessGrew,
};

/// An event of a run, as its journal and its status have it.
struct EventRow {
  uint64_t number = 0;  // of the run, from 1 on; 0: of a program that did not count them
  double unix_s = 0;    // since 1970-01-01 UTC; 0: nobody has looked at a clock yet
  EventCode code{};
  EventKind kind{};
  std::string text;    // what, and why
  std::string by;      // who asked for it; empty: nobody had to
  std::string why;     // by itself; empty: there is no more to it
  std::string others;  // what else there was to decide on, and its worth; empty: nothing

  friend bool operator==(const EventRow&, const EventRow&) = default;
};

/// The log's name: "worker_lost".
std::string_view EventCodeName(EventCode code);
/// Nothing: there is no such event, or people are told nothing of it.
std::optional<EventCode> FindEventCode(std::string_view name);
EventKind KindOf(EventCode code);

/// The event in words, by the fields of its line in the log. Nothing is said (`text` is empty) when
/// one lacks that the text needs.
EventRow MakeEvent(EventCode code, const std::vector<LogField>& fields);

void LogEvent(const Logger& log, EventCode code, std::initializer_list<LogField> fields);

}  // namespace ps::proto
