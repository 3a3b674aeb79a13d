#include "ps/proto/event.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "ps/base/text.h"

namespace ps::proto {
namespace {

/// What is said of an event. "{key}" stands for the value of that field; a part in [] is left out
/// when a field in it is missing.
struct Row {
  LogLevel level = LogLevel::kInfo;
  std::string_view name;  // in the log
  EventKind kind{};
  std::string_view text;
};

constexpr Row Info(std::string_view name, EventKind kind, std::string_view text) {
  return {LogLevel::kInfo, name, kind, text};
}

constexpr Row Warning(std::string_view name, EventKind kind, std::string_view text) {
  return {LogLevel::kWarning, name, kind, text};
}

constexpr Row Error(std::string_view name, EventKind kind, std::string_view text) {
  return {LogLevel::kError, name, kind, text};
}

using enum EventKind;

/// By EventCode. "replan_failed" is of older programs.
constexpr std::array kRows = {
    Info("job_started", kRun, "the run begins: {workers} workers wanted, {shards} shards"),
    Info("job_resumed", kRecovery, "another coordinator goes on: {workers} workers known"),
    Info("training_begins", kRun, "training begins with {workers} workers, after {after_s} s"),
    Warning("workers_missing", kWait, "training begins without some that have not come: {missing}"),
    Info("scaled", kScale, "{workers} workers wanted, {workers_before} before[; asked by {by}]"),
    Info(
        "fleet_start",
        kReplace,
        "worker {worker} is started[ on {type}][ in zone {zone}][: {reason}]"),
    Warning(
        "fleet_waits",
        kWait,
        "{missing} workers of type {type} can't be started yet, the next in {seconds} s: {why}"),
    Warning(
        "type_left_out",
        kWait,
        "{type} is left out for {seconds} s: {failures} starts came to nothing, the last one: "
        "{why}"),
    Warning("no_host", kWait, "[worker {worker}][server {server}] was not started: {why}"),
    Error(
        "process_not_started",
        kGiveUp,
        "[worker {worker}][server {server}] was not started: {why}"),
    Info("fleet_cancel", kScale, "worker {worker} is not waited for: fewer are wanted"),
    Info("fleet_release", kScale, "worker {worker} is let go: fewer are wanted"),
    Info(
        "servers_scaled",
        kScale,
        "{servers} servers wanted, {servers_before} before[; asked by {by}]"),
    Info("chunks_pinned", kScale, "{chunks} chunks have a server that was chosen[; asked by {by}]"),
    Info("servers_move", kScale, "chunks move, for {servers} servers in the end[; asked by {by}]"),
    Info("servers_moved", kScale, "{servers} servers have all chunks, placement {placement}"),
    Info(
        "chunks_moved",
        kScale,
        "chunks moved from shard {from} to shard {to}: {chunks}, placement {placement}"),
    Warning("chunks_wait", kScale, "chunks don't move yet: {why}"),
    Info("shards_changed", kScale, "{servers} servers with {shards} shards take part"),
    Error("servers_not_scaled", kGiveUp, "could not scale to {servers} servers: {why}"),
    Warning("no_seat_left", kGiveUp, "{missing} workers can't be started: no seat is left"),
    Warning(
        "worker_never_joined",
        kGiveUp,
        "worker {worker} never joined[: {reason}][, waited {waited_s} s]"),
    Warning(
        "worker_lost_again",
        kGiveUp,
        "worker {worker} has failed, though it ended with no error: {why}"),
    Warning(
        "no_room_for_worker",
        kGiveUp,
        "one more worker is refused: the servers have room for the gradients of {members}"),
    Info("worker_joins", kJoin, "worker {worker} joined from {host}"),
    Info("worker_reconnected", kRecovery, "worker {worker} is connected again"),
    Info("worker_lost", kRevocation, "worker {worker} lost after {steps} steps: {reason}"),
    Info("worker_left", kLeave, "worker {worker} left after {steps} steps: {reason}"),
    Info("worker_failed", kGiveUp, "worker {worker} failed: {reason}"),
    Info("notice_given", kNotice, "worker {worker} has to be gone in {grace_s} s"),
    Info("release_asked", kNotice, "worker {worker} is to leave for good in {grace_s} s"),
    Info("fault_notice", kNotice, "planned: worker {worker} has to be gone in {grace_s} s"),
    Info("fault_kill", kRevocation, "planned: worker {worker} is killed"),
    Info("fault_add", kScale, "planned: worker {worker} is added"),
    Info(
        "server_notice",
        kNotice,
        "server {server} has to be gone in {grace_s} s: a checkpoint first"),
    Info("successor_started", kNotice, "server {server}: another process is started for it"),
    Warning("successor_ended", kGiveUp, "server {server}: its next process {how}"),
    Warning(
        "handover_in_haste",
        kNotice,
        "server {server} leaves before all steps have ended: what comes after the checkpoint is "
        "lost"),
    Info("prewarm", kReplace, "a machine[ of {type}] may go: one worker more for a while"),
    Warning(
        "server_lost",
        kRecovery,
        "server {server} lost: {why}; back from checkpoint {checkpoint}, {steps_undone} steps of "
        "{samples_undone} samples undone"),
    Warning(
        "server_start_failed",
        kReplace,
        "server {server} did not start: {why}; it is started again"),
    Info("shard_is_back", kRecovery, "shard {shard} is back"),
    Info(
        "servers_parked",
        kPause,
        "{servers} servers end, {why}: checkpoint {checkpoint} has all that was done"),
    Info(
        "servers_woken",
        kPause,
        "{servers} servers are started again, from checkpoint {checkpoint}: {why}"),
    Warning(
        "went_back",
        kRecovery,
        "all went back to checkpoint {checkpoint}: {steps_undone} steps of {samples_undone} "
        "samples undone"),
    Info(
        "steps_undone",
        kRecovery,
        "{steps_undone} steps of {samples_undone} samples of worker {worker} undone: a server that "
        "was lost had them"),
    Info("checkpoint", kCheckpoint, "checkpoint {checkpoint} written in {seconds} s"),
    Warning(
        "checkpoint_skipped",
        kCheckpoint,
        "skipped: checkpoint {checkpoint} is under way since {under_way_s} s"),
    Error("checkpoint_failed", kCheckpoint, "checkpoint {checkpoint} failed: {why}"),
    Error("copy_failed", kCheckpoint, "a copy failed: {why}"),
    Error("checkpoint_damaged", kCheckpoint, "checkpoint {checkpoint} was given up: {why}"),
    Warning("no_last_checkpoint", kGiveUp, "no last checkpoint: {why}"),
    Error(
        "end_without_answer",
        kGiveUp,
        "{of} has given no answer for {waited_s} s; the process ends without it"),
    Info("paused", kPause, "no new work is handed out, on request"),
    Info("continued", kPause, "work is handed out again, on request"),
    Info("mode_wanted", kMode, "{mode} is wanted, {mode_before} is in force: {by}"),
    Info("mode_switched", kMode, "{mode} from now on, {mode_before} before: {by}"),
    Warning(
        "worker_sits_out",
        kStraggler,
        "worker {worker} sits out of the rounds, which would take {slowdown} times as long with "
        "it; it is tried again in {seconds} s"),
    Info("worker_back_in_rounds", kStraggler, "worker {worker} is in the rounds again: {why}"),
    Info("replan", kPlan, "{why}"),
    Warning("replan_failed", kPlan, "no plan was found: {why}"),
    Warning("replan_refused", kPlan, "the planned fleet was refused: {why}"),
    Info("policy", kPolicy, "{why}"),
    Warning("policy_refused", kPolicy, "the policy's fleet was refused: {why}"),
    Warning("training_diverged", kRun, "training has diverged: {why}"),
    Info("epoch_complete", kRun, "epoch {epoch} is complete"),
    Warning("coordinator_stalled", kRun, "the coordinator did not run for {seconds} s"),
    Info("stop_requested", kRun, "the run is to end: {reason}"),
    Error("job_failed", kGiveUp, "the job failed: {reason}"),
    Error("journal_failed", kGiveUp, "the journal failed: {why}; {meaning}"),
    Info("model_saved", kRun, "the model is in {path}"),
    Warning("model_not_saved", kGiveUp, "the model was not saved: {reason}"),
    Info("finished", kRun, "the run is over: {outcome}"),
    Info("settings_changed", kMode, "{settings} {when}, {settings_before} before: {by}[, {why}]"),
    Info("machine_rented", kScale, "worker {worker} has machine {machine}, {pool}"),
    Warning("machine_lost", kRevocation, "worker {worker} has lost its machine: {why}"),
    Warning("budget_spent", kPlan, "the run ends: {why}"),
    Error("machines_left", kGiveUp, "{machines} machines may still cost: {why}"),
    Info("stopped_early", kRun, "training ends before its last epoch: {why}"),
    Info("best_epoch", kCheckpoint, "epoch {epoch} is the best so far: {metric} {score}"),
    Info(
        "best_taken",
        kCheckpoint,
        "the servers have the model of epoch {epoch} again, from checkpoint {checkpoint}: {metric} "
        "{score}"),
    Warning(
        "best_lost",
        kGiveUp,
        "the model of epoch {epoch}, which was the best, can't be had from checkpoint "
        "{checkpoint}: {why}"),
    Warning("not_evaluated", kGiveUp, "the model is left without an evaluation of it: {why}"),
    Warning(
        "notice_ignored",
        kNotice,
        "worker {worker} on {host} trains on, though its provider announces: {what}"),
    Warning(
        "loss_spike", kRun, "the loss of the last {steps} steps is {loss}, and was {usual} before"),
    Info("loss_is_back", kRun, "the loss is {loss} again, after {steps} steps"),
    Warning(
        "training_stalled",
        kWait,
        "no step was counted for {seconds} s, and one every {usual_s} s before: psctl why tells "
        "who waits for what"),
    Warning(
        "staleness_grew",
        kRun,
        "gradients are {staleness} steps old, and were {usual} before: a slower worker, or a "
        "thinner link, keeps them for longer"),
};
static_assert(kRows.size() == static_cast<size_t>(EventCode::kStalenessGrew) + 1);

const Row& RowOf(EventCode code) {
  return kRows[static_cast<size_t>(code)];
}

std::string_view ValueOf(const std::vector<LogField>& fields, std::string_view key) {
  const auto it = std::ranges::find(fields, key, &LogField::key);
  return it == fields.end() ? std::string_view() : std::string_view(it->value);
}

/// As many digits of a value in seconds as people read: "0.184" of "0.183978".
std::string ShortSeconds(std::string_view value) {
  double seconds = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, seconds);
  if (error != std::errc() || stopped != end || value.find('.') == std::string_view::npos) {
    return Printable(value);
  }
  return std::abs(seconds) < 1000 ? fmt::format("{:.3g}", seconds) : fmt::format("{:.0f}", seconds);
}

/// Fills the fields of `text`. Returns nothing when one is missing that is not in [].
std::optional<std::string> Fill(std::string_view text, const std::vector<LogField>& fields) {
  std::string out;
  while (!text.empty()) {
    if (text.front() == '[') {
      const size_t end = text.find(']');
      out += Fill(text.substr(1, end - 1), fields).value_or("");
      text.remove_prefix(end + 1);
    } else if (text.front() == '{') {
      const size_t end = text.find('}');
      const std::string_view key = text.substr(1, end - 1);
      const std::string_view value = ValueOf(fields, key);
      if (value.empty()) {
        return std::nullopt;
      }
      out += key == "seconds" || key.ends_with("_s") ? ShortSeconds(value) : Printable(value);
      text.remove_prefix(end + 1);
    } else {
      const size_t end = std::min(text.find_first_of("[{"), text.size());
      out += text.substr(0, end);
      text.remove_prefix(end);
    }
  }
  return out;
}

}  // namespace

std::string_view EventKindName(EventKind kind) {
  constexpr std::string_view kNames[] = {
      "run",
      "recovery",
      "wait",
      "scale",
      "replace",
      "give-up",
      "join",
      "leave",
      "revocation",
      "notice",
      "checkpoint",
      "pause",
      "mode",
      "straggler",
      "plan",
      "policy",
  };
  return kNames[static_cast<size_t>(kind)];
}

std::string_view EventCodeName(EventCode code) {
  return RowOf(code).name;
}

std::optional<EventCode> FindEventCode(std::string_view name) {
  const auto* const row = std::ranges::find(kRows, name, &Row::name);
  return row == kRows.end() ? std::nullopt
                            : std::optional(static_cast<EventCode>(row - kRows.begin()));
}

EventKind KindOf(EventCode code) {
  return RowOf(code).kind;
}

EventRow MakeEvent(EventCode code, const std::vector<LogField>& fields) {
  const Row& row = RowOf(code);
  EventRow event;
  event.code = code;
  event.kind = row.kind;
  event.text = Fill(row.text, fields).value_or("");
  event.by = ValueOf(fields, "by");
  const std::string_view why = ValueOf(fields, "why");
  event.why = why.empty() ? ValueOf(fields, "reason") : why;
  return event;
}

void LogEvent(const Logger& log, EventCode code, std::initializer_list<LogField> fields) {
  const Row& row = RowOf(code);
  switch (row.level) {
    case LogLevel::kDebug:
      log.Debug(row.name, fields);
      break;
    case LogLevel::kInfo:
      log.Info(row.name, fields);
      break;
    case LogLevel::kWarning:
      log.Warning(row.name, fields);
      break;
    case LogLevel::kError:
      log.Error(row.name, fields);
      break;
  }
}

}  // namespace ps::proto
