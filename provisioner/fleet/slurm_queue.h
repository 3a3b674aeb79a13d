#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps::provisioner {

/// The user's jobs that wait or run, asked of Slurm once for all agents of one folder: a run has an
/// agent for each job, and Slurm's controller serves everybody on the cluster. So whoever wants to
/// know how a job does asks here, never Slurm: its answer lies in a file, and one agent at a time
/// renews it, however many there are and whether Slurm answers or not.
class SlurmQueue {
 public:
  /// `folder` is that of a run, on this machine or shared. `answer_limit`: of each question.
  SlurmQueue(std::string folder, Duration answer_limit)
      : folder_(std::move(folder)), answer_limit_(answer_limit) {}

  /// The job's state ("RUNNING"), empty when it neither waits nor runs; by an answer to a question
  /// that was asked after `since`. Asks first when nobody has for `age`. Nothing: there is no such
  /// answer, because Slurm says nothing or because another agent is asking.
  std::optional<std::string> StateOf(std::string_view job, TimePoint since, Duration age);

 private:
  std::string AnswerPath() const { return folder_ + "/slurm.queue"; }

  std::string LockPath() const { return folder_ + "/slurm.queue.lock"; }

  void AskIfOlder(Duration age) const;

  const std::string folder_;
  const Duration answer_limit_;
};

/// States by job of the lines "JOB STATE" of squeue; other lines are left out. Pure.
std::map<std::string, std::string, std::less<>> ParseSlurmQueue(std::string_view text);

}  // namespace ps::provisioner
