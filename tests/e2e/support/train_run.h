#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/host_port.h"
#include "ps/proto/messages.h"
#include "tests/e2e/support/job.h"
#include "tests/e2e/support/json.h"
#include "tests/e2e/support/process.h"

namespace ps::e2e {

/// One `psctl train` and what it leaves. At its end the logs are searched for processes that failed
/// a check; when the test has failed, they are shown.
class TrainRun {
 public:
  struct Options {
    std::vector<std::string> before{};     // words that start psctl; empty: it is started itself
    std::vector<std::string> arguments{};  // after the job file
    bool is_replacing = false;             // fleet.replace
    uint64_t file_bytes_max = 0;           // as Process::Options
  };

  explicit TrainRun(const Job& job) : TrainRun(job, Options{}) {}

  TrainRun(const Job& job, const Options& options);
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;
  ~TrainRun();

  Process& psctl() { return *psctl_; }

  /// The run directory; "" until there is one.
  std::string Root() const;
  /// Where the coordinator listens for servers and workers; nothing until it does.
  std::optional<HostPort> Address() const;

  /// Of the process that coordinates; 0 when there is none.
  int64_t CoordinatorPid() const;
  /// As when both were killed at once: the supervisor starts no other one.
  void KillCoordinator();

  /// Where it listens for psctl.
  std::string ControlSocket() const { return Root() + "/control.sock"; }

  std::string Token() const;

  /// Asks the coordinator. Nothing when it does not answer: not yet, or not any more.
  std::optional<proto::JobStatus> Status() const;
  /// Asks again and again until the status is as wanted, and returns it; nothing when it does not
  /// come to that in time, or when the run ends before.
  std::optional<proto::JobStatus> WaitFor(
      const std::function<bool(const proto::JobStatus&)>& is_wanted,
      Duration deadline = kRunPatience);
  /// Until so many samples are counted.
  std::optional<proto::JobStatus> WaitForSamples(uint64_t samples);

  /// A worker or server that nobody but the test started, as a person would on another machine.
  /// Its log is its stderr.
  std::unique_ptr<Process> StartByHand(
      const std::string& program, const std::vector<std::string>& arguments);

  std::unique_ptr<Process> StartWorker(const std::vector<std::string>& arguments = {}) {
    return StartByHand("ps_worker", arguments);
  }

  /// How psctl ended; a run that goes on is a test failure.
  ProcessEnd WaitForEnd(Duration deadline = kRunPatience);

  /// summary.json; a missing or broken one is a test failure.
  Json Summary() const;
  /// Every sample of every epoch was counted, once.
  void ExpectExactLedger() const;
  /// The processes of this run that still live, those that the test started too: ps_worker,
  /// ps_server, or both when `program` is empty.
  std::vector<int64_t> Children(const std::string& program = "") const;
  /// Nothing of the run is left over, at once or within a moment.
  void ExpectNothingLeft() const;

 private:
  /// What every process of the run wrote, by path.
  std::vector<std::string> Logs() const;

  const Job job_;
  std::unique_ptr<Process> psctl_;
  int hand_started_ = 0;
};

/// The summary of a run, also of one that was stopped: what its workers did and what its epochs
/// have add up to what was counted, and nothing is left with anybody.
void ExpectConsistentLedger(const Json& summary);

/// Ends a run whose job does not end by itself (Job::SetEndless) after the steps in hand: every
/// sample that was counted was counted once, and nothing is left over. Its summary.
Json StopCleanly(TrainRun* run);

/// Workers of a type that take part now.
size_t CountOf(const proto::JobStatus& status, const std::string& type);

/// Workers that take part now.
std::vector<proto::WorkerRow> Alive(const proto::JobStatus& status);

/// "sub" in "text", for matching messages that tests hold against what a person needs to read.
bool Contains(const std::string& text, const std::string& sub);

}  // namespace ps::e2e
