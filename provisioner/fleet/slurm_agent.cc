#include "provisioner/fleet/slurm_agent.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// Slurm's controller may be restarted meanwhile.
constexpr Duration kUnknownLimit = std::chrono::minutes(5);
/// Before the end of the job's time the worker gets SIGTERM; Slurm allows itself a minute more.
constexpr uint32_t kNoticeSecondsMin = 60;
/// The time between two questions grows to so many times the first one.
constexpr int kPollGrowth = 3;
constexpr int kPollsBeforeGrowth = 30;
constexpr int kCancelAttempts = 5;
/// Of the job's script, and none of our programs has it: what the program needs is not there.
constexpr int kLacksExit = 125;

TimePoint Now() {
  return SystemTime().Now();
}

std::string FieldOf(std::string_view text, std::string_view name) {
  const size_t begin = text.find(name);
  if (begin == std::string_view::npos) {
    return "";
  }
  text.remove_prefix(begin + name.size());
  return std::string(text.substr(0, text.find_first_of(" \n")));
}

int NumberOf(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

class SlurmSession {
 public:
  SlurmSession(const SlurmJob& job, const AgentWishes& wishes)
      : job_(job), wishes_(wishes), name_(fmt::format("{}-{}", job.name, ::getppid())) {}

  AgentEnd Run() {
    if (const Status submitted = Submit(); !submitted.ok()) {
      AgentSay(fmt::format("Slurm took no job: {}", submitted.message()));
      if (submitted.code() == StatusCode::kDeadlineExceeded) {
        Cancel({"--name=" + name_, "--me"});  // it may have been taken all the same
      }
      return {kNotStartedExit, 0};
    }
    last_known_ = Now();
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
      if (const auto end = Look()) {
        return *end;
      }
    }
  }

 private:
  Status Submit() {
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

  /// A line of the job's script.
  std::string Test() const {
    return job_.needs.empty()
               ? ""
               : fmt::format("[ -e {} ] || exit {}\n", ShellQuoted({job_.needs}), kLacksExit);
  }

  /// Nothing while the job waits or runs.
  std::optional<AgentEnd> Look() {
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
    if (state.state == "RUNNING") {
      is_running_ = true;
    }
    if (!IsSlurmEnd(state.state)) {
      return std::nullopt;
    }
    if (state.state == "FAILED" && (state.code == 126 || state.code == 127)) {
      AgentSay(fmt::format(
          "Slurm job {}: the program can't run on its node; is it there under this path?", id_));
      return AgentEnd{kNotStartedExit, 0};
    }
    if (state.state == "FAILED" && state.code == kLacksExit && !job_.needs.empty()) {
      AgentSay(fmt::format(
          "Slurm job {}: there is no {} on its node; the folder of the checkpoints has to be "
          "shared under one path",
          id_,
          job_.needs));
      return AgentEnd{kNotStartedExit, 0};
    }
    if (state.signal > 0) {
      return AgentEnd{0, state.signal};
    }
    if (state.state == "COMPLETED" || (state.state == "FAILED" && state.code > 0)) {
      return AgentEnd{state.code, 0};
    }
    AgentSay(fmt::format("Slurm job {} ended: {}", id_, Printable(state.state)));
    return AgentEnd{is_running_ ? kLostExit : kNotStartedExit, 0};
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
  std::string id_;      // of the job, or of the task: 12_3
  std::string number_;  // of the array, 12: a task that is cancelled while it waits has no record
  bool is_running_ = false;
  TimePoint last_known_{};
};

}  // namespace

SlurmState ParseSlurmState(std::string_view text) {
  SlurmState state;
  state.state = FieldOf(text, " JobState=");
  const std::string exit = FieldOf(text, " ExitCode=");
  state.code = NumberOf(exit);
  const size_t colon = exit.find(':');
  state.signal =
      colon == std::string::npos ? 0 : NumberOf(std::string_view(exit).substr(colon + 1));
  return state;
}

std::string SlurmFilePattern(std::string_view path) {
  std::string pattern;
  for (const char c : path) {
    pattern += c == '%' ? std::string("%%") : std::string(1, c);
  }
  return pattern;
}

bool IsSlurmEnd(std::string_view state) {
  constexpr std::array<std::string_view, 11> kEnds = {
      "BOOT_FAIL",
      "CANCELLED",
      "COMPLETED",
      "DEADLINE",
      "FAILED",
      "NODE_FAIL",
      "OUT_OF_MEMORY",
      "PREEMPTED",
      "REVOKED",
      "SPECIAL_EXIT",
      "TIMEOUT"};
  return std::find(kEnds.begin(), kEnds.end(), state) != kEnds.end();
}

AgentEnd RunBySlurm(const SlurmJob& job, const AgentWishes& wishes) {
  return SlurmSession(job, wishes).Run();
}

}  // namespace ps::provisioner
