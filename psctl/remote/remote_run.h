#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/rental/head_machine.h"
#include "provisioner/rental/rental_note.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "psctl/cli/interrupts.h"
#include "psctl/remote/head_job.h"
#include "psctl/remote/head_shell.h"
#include "run/directory/files.h"
#include "run/directory/head_file.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

/// A run on a rented machine, its head, with coordinator and servers: from the request for the
/// machine until all that the run left is here and the machine is given back. Each step is noted in
/// the run's directory before it is done, so that whoever comes after a crash goes on. The steps
/// until it trains are in remote_begin.cc, what is sent in remote_send.cc. Thread: one.
class RemoteRun {
 public:
  /// How it begins on its head.
  struct Beginning {
    std::string plan;  // a plan's file; empty: none
    std::string from;  // a folder of checkpoints here, or a place of copies; empty: from nothing
    std::vector<std::string> changes;  // to the job that it goes on with, KEY=VALUE each
    bool is_trusted = false;           // so is what the job of a copy in a bucket starts
  };

  /// One that is to begin: nothing is rented before the provider and the job were looked at.
  /// Errors: kInvalidArgument (what the job lacks, what can't be rented), kIo.
  static Result<std::unique_ptr<RemoteRun>> Create(
      proto::JobConfig config, const Beginning& beginning, const run::Console& console);

  /// The one of that directory. Errors: kUnavailable (another psctl works on it), kIo.
  static Result<std::unique_ptr<RemoteRun>> Open(
      const run::RunPaths& paths, const run::Console& console);

  /// The run goes on on its head when it returns Ok. What fails before it was started there leaves
  /// no machine. Errors: kCancelled (Ctrl-C), kUnavailable, kInvalidArgument, kIo.
  Status Begin();

  /// Shows how the run goes until it has ended. False: it goes on, and nobody looks any more.
  Result<bool> Follow();

  /// Nobody looks for the machine any more. Errors: kUnavailable (the provider tells of it, or does
  /// not answer).
  Status Forget();

  /// Brings here what the ended run left, and gives the machine back.
  Status Collect();

  const run::RunPaths& paths() const { return paths_; }

 private:
  static constexpr Duration kShort = std::chrono::seconds(60);    // of a script
  static constexpr Duration kLook = std::chrono::seconds(2);      // between two of them
  static constexpr Duration kLostMax = std::chrono::minutes(10);  // without an answer

  RemoteRun(run::RunPaths paths, const run::Console& console);

  Status Load();
  Status MakeHead();
  Status Start();
  Status SendPrograms(const HeadShell& shell);
  Status SendJob(const HeadShell& shell, const HeadFacts& head);
  Status SendCheckpoints(const HeadShell& shell);
  Status AwaitRun(const HeadShell& shell);
  Status TakeBack(Status why);
  Status GiveBack();
  HeadShell Shell() const;
  /// "cd" to the run's folder on the head, and a script behind it.
  std::string InFolder(const std::string& script) const;
  std::string ProgramsThere() const;
  /// Errors: the head can't be asked.
  Result<bool> HasEnded(const HeadShell& shell);
  Status FindHead();
  Result<std::string> LoginOf(const provisioner::Machine& machine) const;
  bool Wait(Duration time) const;
  void Say(const std::string& text) const;

  const run::RunPaths paths_;
  const run::Console& console_;
  run::FileLock lock_;
  proto::JobConfig config_;
  run::HeadFile head_;
  std::unique_ptr<provisioner::Provider> provider_;
  provisioner::RentalFiles notes_;
  std::optional<provisioner::HeadMachine> machine_;
  std::optional<InterruptGuard> interrupts_;
  bool never_began_ = false;  // the head has said so
  bool is_gone_ = false;      // the provider has said so of the head
};

}  // namespace ps::psctl
