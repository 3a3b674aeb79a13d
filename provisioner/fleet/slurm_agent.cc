#include "provisioner/fleet/slurm_agent.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "provisioner/fleet/environment.h"
#include "provisioner/fleet/slurm_queue.h"
#include "ps/base/file.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// Slurm's controller may be restarted meanwhile.
constexpr Duration kUnknownLimit = std::chrono::minutes(5);
/// Before the end of the job's time the worker gets SIGTERM; Slurm allows itself a minute more.
constexpr uint32_t kNoticeSecondsMin = 60;
/// By how much the time between two questions grows at most.
constexpr int kPollGrowth = 3;
constexpr int kPollsBeforeGrowth = 30;
constexpr int kCancelAttempts = 5;

TimePoint Now() {
  return SystemTime().Now();
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A file beside the log for as long as somebody waits for the job. A job that Slurm starts after
/// its agent gave it up, for example because sbatch's answer was lost, finds none and runs nothing:
/// it would take part with the token of the process that has its place since.
class Ticket {
 public:
  Ticket(const std::string& log_path, const std::string& name)
      : path_(fmt::format("{}/{}.wanted", FolderOf(log_path), name)),
        made_(WriteFileAtomically(path_, "")) {}

  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  ~Ticket() { ::unlink(path_.c_str()); }

  const Status& made() const { return made_; }

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const Status made_;
};

class SlurmSession {
 public:
  SlurmSession(const SlurmJob& job, const AgentWishes& wishes)
      : job_(job),
        wishes_(wishes),
        name_(fmt::format("{}-{}", job.name, ::getppid())),
        ticket_(job.log_path, name_),
        queue_(FolderOf(job.log_path), job.answer_limit) {}

  AgentEnd Run() {
    if (const Status submitted = Submit(); !submitted.ok()) {
      AgentSay(fmt::format("Slurm took no job: {}", submitted.message()));
      if (submitted.code() != StatusCode::kNotFound) {
        TakeBack();
      }
      return {kNotStartedExit, 0};
    }
    submitted_ = Now();
    last_known_ = submitted_;
    for (int polls = 0;; ++polls) {
      const int growth = polls < kPollsBeforeGrowth ? 1 : kPollGrowth;
      const AgentWish wish = wishes_.Await(job_.poll * growth);
      if (wish == AgentWish::kKill) {
        Kill();
        return {0, SIGKILL};
      }
      if (wish == AgentWish::kStop) {
        Stop();
        polls = 0;
      }
      if (const auto end = Look(job_.poll * growth / 2)) {
        return *end;
      }
    }
  }

 private:
  Status Submit() {
    PS_TRY(ticket_.made());
    Status status = SubmitAs(job_.task);
    // MaxArraySize of the cluster limits the number, and may forbid arrays.
    if (job_.task && status.message().find("job array") != std::string_view::npos) {
      status = SubmitAs(std::nullopt);
    }
    return status;
  }

  Status SubmitAs(std::optional<uint32_t> task) {
    std::vector<std::string> words = {
        "sbatch",
        "--parsable",
        "--no-requeue",
        "--job-name=" + name_,
        "--output=" + SlurmFilePattern(job_.log_path),
        "--open-mode=append",
        "--export=" + SlurmExport(environ),
        "--ntasks=1",
        fmt::format("--cpus-per-task={}", job_.cpus),
        fmt::format("--signal=B:TERM@{}", std::max(job_.notice_s, kNoticeSecondsMin))};
    if (task) {
      words.push_back(fmt::format("--array={}", *task));
    }
    words.insert(words.end(), job_.words.begin(), job_.words.end());
    // The program takes the shell's place, so that signals reach it and nothing is left behind.
    const std::string script =
        "#!/bin/sh\n" + Test() + "exec " + ShellQuoted(job_.arguments) + "\n";
    PS_ASSIGN(const std::string answer, RunCommand(words, script, job_.answer_limit));
    id_ = answer.substr(0, answer.find_first_of(";\n"));
    const bool is_number = !id_.empty() && std::all_of(id_.begin(), id_.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    if (!is_number) {
      return Status::Io(fmt::format("sbatch answered {}", Printable(answer)));
    }
    number_ = id_;
    if (task) {
      id_ += fmt::format("_{}", *task);
    }
    AgentSay(fmt::format("Slurm job {} ({})", id_, name_));
    return Status::Ok();
  }

  /// The lines of the job's script before the program.
  std::string Test() const {
    std::string lines = fmt::format(
        "[ -e {} ] || {{ echo 'ps_agent: nobody waits for this job any more'; exit 0; }}\n",
        ShellQuoted({ticket_.path()}));
    if (!job_.needs.empty()) {
      lines += fmt::format("[ -e {} ] || exit {}\n", ShellQuoted({job_.needs}), kLacksExit);
    }
    return lines;
  }

  /// Nothing while the job waits or runs, as far as is known by an answer of at most `age`.
  std::optional<AgentEnd> Look(Duration age) {
    const std::optional<std::string> state = queue_.StateOf(number_, submitted_, age);
    const bool is_known = state.has_value();
    if (is_known && !state->empty() && !IsSlurmEnd(*state)) {
      last_known_ = Now();
      is_running_ = is_running_ || *state == "RUNNING";
      return std::nullopt;
    }
    if (!is_known && Now() - last_known_ < kUnknownLimit) {
      return std::nullopt;
    }
    return LookAtEnd();
  }

  /// Asks how the job ended, when it is not in the queue any more.
  std::optional<AgentEnd> LookAtEnd() {
    const Result<std::string> answer =
        RunCommand({"scontrol", "--oneliner", "show", "job", number_}, "", job_.answer_limit);
    if (!answer.ok()) {
      if (Now() - last_known_ < kUnknownLimit) {
        return std::nullopt;
      }
      AgentSay(fmt::format("Slurm says nothing of job {}: {}", id_, answer.status().message()));
      return AgentEnd{kLostExit, 0};
    }
    last_known_ = Now();
    const SlurmState state = ParseSlurmState(*answer);
    is_running_ = is_running_ || state.state == "RUNNING";
    if (!IsSlurmEnd(state.state)) {
      return std::nullopt;
    }
    const SlurmEnd end = MeaningOf(state, is_running_, job_.needs);
    if (!end.why.empty()) {
      AgentSay(fmt::format("Slurm job {} ended: {}", id_, end.why));
    }
    return end.end;
  }

  /// Slurm may have taken the job whatever sbatch said, and may be busy: until it has none of this
  /// name.
  void TakeBack() const {
    for (int i = 0; i < kCancelAttempts; ++i) {
      const bool is_cancelled = Cancel({"--name=" + name_, "--me"});
      const Result<std::string> left = RunCommand(
          {"squeue", "--me", "--noheader", "--name=" + name_, "--format=%F"},
          "",
          job_.answer_limit);
      if (is_cancelled && left.ok() && left->empty()) {
        return;
      }
      wishes_.Await(std::chrono::seconds(i + 1));
    }
    AgentSay(fmt::format("Slurm may have a job {} still, which ends when it starts", name_));
  }

  void Stop() const {
    Cancel({"--signal=TERM", "--batch", id_});
    if (!is_running_) {
      Cancel({"--state=PENDING", id_});
    }
  }

  /// At once. A job that waits in the queue takes no signal.
  void Kill() const {
    Cancel({"--signal=KILL", "--full", id_});
    for (int i = 0; i < kCancelAttempts && !Cancel({id_}); ++i) {
      wishes_.Await(std::chrono::seconds(i));
    }
  }

  bool Cancel(std::vector<std::string> words) const {
    words.insert(words.begin(), {"scancel", "--quiet"});
    const Status status = RunCommand(words, "", job_.answer_limit).status();
    if (!status.ok()) {
      AgentSay(fmt::format("Slurm: {}", status.message()));
    }
    return status.ok();
  }

  const SlurmJob& job_;
  const AgentWishes& wishes_;
  const std::string name_;
  const Ticket ticket_;
  SlurmQueue queue_;
  std::string id_;      // of the job, or of the task: 12_3
  std::string number_;  // of the array, 12: a task that is cancelled while it waits has no record
  bool is_running_ = false;
  TimePoint submitted_{};
  TimePoint last_known_{};
};

}  // namespace

std::string SlurmFilePattern(std::string_view path) {
  std::string pattern;
  for (const char c : path) {
    pattern += c == '%' ? std::string("%%") : std::string(1, c);
  }
  return pattern;
}

AgentEnd RunBySlurm(const SlurmJob& job, const AgentWishes& wishes) {
  return SlurmSession(job, wishes).Run();
}

}  // namespace ps::provisioner
