// Job k of n simulates every n-th seed from from + k on. A job tells how far it is through shared
// memory, and what broke through a pipe. So a job that dies of a failed check tells its seed, too.

#include "tests/sim/campaign.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/time.h"

namespace ps::sim {
namespace {

constexpr Duration kProgressInterval = std::chrono::seconds(10);
constexpr int kPollMs = 200;
constexpr uint64_t kShownOfKindMax = 20;
/// A violation's line in the pipe; shorter than PIPE_BUF, so that lines of two jobs do not mix.
constexpr size_t kLineBytesMax = 2000;

/// CPU time of the jobs that have ended: other work on the machine changes it least.
double CpuSecondsOfJobs() {
  rusage usage{};
  PS_CHECK(::getrusage(RUSAGE_CHILDREN, &usage) == 0) << "no usage of children";
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

/// What a job shows of itself, in memory that it shares with the campaign.
struct JobState {
  std::atomic<uint64_t> seed;  // under way
  std::atomic<uint64_t> done;  // seeds finished
};

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options)
      : options_(options),
        states_(static_cast<JobState*>(::mmap(
            nullptr,
            sizeof(JobState) * kCampaignJobsMax,
            PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS,
            -1,
            0))),
        pids_(options.jobs) {
    PS_CHECK(states_ != MAP_FAILED) << "no shared memory";
    PS_CHECK(options.jobs > 0 && options.jobs <= kCampaignJobsMax) << options.jobs << " jobs";
    PS_CHECK(::pipe2(pipe_, O_CLOEXEC) == 0) << "no pipe";
  }

  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  ~Campaign() {
    ::munmap(states_, sizeof(JobState) * kCampaignJobsMax);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }

  uint64_t Run();

 private:
  void StartJob(uint32_t job, uint64_t first_seed);
  void RunJob(uint32_t job, uint64_t first_seed);
  void ReadLines();
  void Note(const std::string& line);
  void ReapJobs();
  void KillJobs();
  void PrintProgress() const;
  uint64_t DoneCount() const;

  const CampaignOptions options_;
  JobState* const states_;
  int pipe_[2] = {-1, -1};
  std::vector<pid_t> pids_;  // 0: ended
  std::string text_;         // read from the pipe, not yet a whole line
  uint64_t failures_ = 0;
  std::map<std::string, uint64_t> kinds_;  // how many of each
  const TimePoint begin_ = SystemTime().Now();
};

void Campaign::StartJob(uint32_t job, uint64_t first_seed) {
  if (first_seed >= options_.from + options_.count) {
    pids_[job] = 0;
    return;
  }
  std::fflush(stdout);
  const pid_t pid = ::fork();
  PS_CHECK(pid >= 0) << "cannot fork";
  if (pid == 0) {
    RunJob(job, first_seed);
    std::_Exit(0);
  }
  pids_[job] = pid;
}

void Campaign::RunJob(uint32_t job, uint64_t first_seed) {
  JobState& state = states_[job];
  for (uint64_t seed = first_seed; seed < options_.from + options_.count; seed += options_.jobs) {
    state.seed = seed;
    Scenario scenario = RandomScenario(seed, options_.only);
    scenario.log_detail = LogDetail::kNone;
    const Outcome outcome = Simulate(scenario);
    if (!outcome.ok()) {
      std::string line = FirstFailure(outcome) + "\t" + Describe(scenario);
      std::replace(line.begin(), line.end(), '\n', ' ');
      line.resize(std::min(line.size(), kLineBytesMax));
      line += '\n';
      if (::write(pipe_[1], line.data(), line.size()) < 0) {
        return;  // the campaign is gone
      }
    }
    ++state.done;
    if (!outcome.ok() && !options_.keeps_going) {
      return;
    }
  }
}

void Campaign::Note(const std::string& line) {
  ++failures_;
  const std::string failure = line.substr(0, line.find('\t'));
  if (++kinds_[KindOf(failure)] <= kShownOfKindMax) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
}

void Campaign::ReadLines() {
  pollfd poll{pipe_[0], POLLIN, 0};
  int wait_ms = kPollMs;
  while (::poll(&poll, 1, wait_ms) > 0) {
    wait_ms = 0;
    char buffer[4096];
    const ssize_t n = ::read(pipe_[0], buffer, sizeof(buffer));
    text_.append(buffer, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  }
  for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
    Note(text_.substr(0, end));
    text_.erase(0, end + 1);
  }
}

/// A job that ended before its last seed was killed by a failed check, or a sanitizer.
void Campaign::ReapJobs() {
  for (uint32_t job = 0; job < options_.jobs; ++job) {
    int status = 0;
    if (pids_[job] == 0 || ::waitpid(pids_[job], &status, WNOHANG) == 0) {
      continue;
    }
    pids_[job] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      continue;
    }
    const uint64_t seed = states_[job].seed;
    Note("the process died\t" + Describe(RandomScenario(seed, options_.only)));
    ++states_[job].done;
    if (options_.keeps_going) {
      StartJob(job, seed + options_.jobs);
    }
  }
}

void Campaign::KillJobs() {
  for (const pid_t pid : pids_) {
    if (pid != 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
}

uint64_t Campaign::DoneCount() const {
  uint64_t done = 0;
  for (uint32_t job = 0; job < options_.jobs; ++job) {
    done += states_[job].done;
  }
  return done;
}

void Campaign::PrintProgress() const {
  const double seconds = Seconds(SystemTime().Now() - begin_);
  const auto done = static_cast<double>(DoneCount());
  const double rate = done / seconds;
  const double left = rate > 0 ? (static_cast<double>(options_.count) - done) / rate : 0;
  std::fprintf(
      stderr,
      "%.0f of %llu seeds, %llu violations, %.0f seeds/s, %.0f s left\n",
      done,
      static_cast<unsigned long long>(options_.count),
      static_cast<unsigned long long>(failures_),
      rate,
      left);
}

uint64_t Campaign::Run() {
  for (uint32_t job = 0; job < options_.jobs; ++job) {
    StartJob(job, options_.from + job);
  }
  TimePoint next_progress = begin_ + kProgressInterval;
  const auto is_running = [this] {
    return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid != 0; });
  };
  while (is_running() && (options_.keeps_going || failures_ == 0)) {
    ReadLines();
    ReapJobs();
    if (SystemTime().Now() >= next_progress) {
      next_progress += kProgressInterval;
      PrintProgress();
    }
  }
  KillJobs();
  ReadLines();
  PrintProgress();
  for (const auto& [kind, count] : kinds_) {
    std::printf("%llu of: %s\n", static_cast<unsigned long long>(count), kind.c_str());
  }
  const uint64_t done = DoneCount();
  const double cpu_s = CpuSecondsOfJobs();
  std::printf(
      "%llu seeds from %llu: %llu broke a promise; %.0f s of CPU time, %.1f ms a seed\n",
      static_cast<unsigned long long>(done),
      static_cast<unsigned long long>(options_.from),
      static_cast<unsigned long long>(failures_),
      cpu_s,
      done == 0 ? 0 : cpu_s * 1000 / static_cast<double>(done));
  return failures_;
}

}  // namespace

std::string FirstFailure(const Outcome& outcome) {
  if (!outcome.violations.empty()) {
    return outcome.violations.front();
  }
  return (outcome.is_finished ? "finished: " : "not finished: ") + outcome.status.ToString();
}

std::string KindOf(const std::string& failure) {
  std::string kind;
  for (const char c : failure) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      kind += c;
    } else if (kind.empty() || kind.back() != '#') {
      kind += '#';
    }
  }
  return kind;
}

uint64_t RunCampaign(const CampaignOptions& options) {
  return Campaign(options).Run();
}

}  // namespace ps::sim
