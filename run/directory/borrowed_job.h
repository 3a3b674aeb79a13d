#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/job_trust.h"

namespace ps::run {

// A job that comes with a copy of checkpoints: whoever can write to that place can have written it.
// What it would start, and where, comes from the command line or is confirmed.

/// Remembers in a checkpoint path that its checkpoints up to `newest` were fetched from `place`.
/// Errors: kIo.
Status NoteOrigin(
    checkpoint::JobStore& store, checkpoint::CheckpointId newest, const std::string& place);

/// Where checkpoint `id` was fetched from; empty: a run of this machine wrote it to its path.
/// Errors: kCorruption, kIo.
Result<std::string> OriginOf(checkpoint::JobStore& store, checkpoint::CheckpointId id);

/// For a copy of one checkpoint path to another: what the source remembers, the target does as
/// well. Errors: those of JobStore.
Status CarryOrigin(
    checkpoint::Storage& storage, const std::string& source, const std::string& target);

/// What is to be confirmed: proto::SettingsToTrust without what `overrides` set, and without a
/// checkpoint.copy_to that is `place` itself, which the user has named.
std::vector<proto::JobSetting> SettingsToConfirm(
    const proto::JobConfig& config,
    const std::vector<proto::ConfigOverride>& overrides,
    const std::string& place);

/// The default when no override sets it: that of the copy is a folder of another machine.
std::string BorrowedRunDirectory(
    const proto::JobConfig& config, const std::vector<proto::ConfigOverride>& overrides);

/// Confirms each set of settings once: by the flag --trust-launch, else by a question.
class Confirmation {
 public:
  /// Asks the user and returns whether the answer is yes; null: nobody is there to be asked.
  using Ask = std::function<bool(const std::string& question)>;

  Confirmation(bool is_trusted, Ask ask) : is_trusted_(is_trusted), ask_(std::move(ask)) {}

  /// Errors: kInvalidArgument with the settings and what to do.
  Status Confirm(const std::vector<proto::JobSetting>& settings, const std::string& place);

 private:
  const bool is_trusted_;
  const Ask ask_;
  std::vector<proto::JobSetting> confirmed_;
};

/// Asks on this process's terminal; null when standard input or standard error is none.
Confirmation::Ask AskOnTerminal();

}  // namespace ps::run
