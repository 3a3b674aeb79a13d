#include "provisioner/fleet/slurm_queue.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <utility>

#include "provisioner/fleet/agent_process.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {
namespace {

// Both files begin with a line of when Slurm was asked, in nanoseconds of this machine's clock,
// which all its processes share and which begins anew at a boot.

int64_t NanosNow() {
  return SystemTime().Now().time_since_epoch().count();
}

/// Nothing when there is no such time, or when it is from before the boot.
std::optional<int64_t> TimeOf(std::string_view text) {
  int64_t nanos = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), nanos);
  const bool is_time = parsed.ec == std::errc() && parsed.ptr != text.data() + text.size() &&
                       *parsed.ptr == '\n' && nanos <= NanosNow();
  return is_time ? std::optional(nanos) : std::nullopt;
}

}  // namespace

std::optional<std::string> SlurmQueue::StateOf(
    std::string_view job, TimePoint since, Duration age) {
  AskIfOlder(age);
  const Result<std::string> answer = ReadFile(AnswerPath());
  const std::optional<int64_t> asked = answer.ok() ? TimeOf(*answer) : std::nullopt;
  if (!asked || *asked <= since.time_since_epoch().count()) {
    return std::nullopt;
  }
  const auto states = ParseSlurmQueue(*answer);
  const auto it = states.find(job);
  return it == states.end() ? "" : it->second;
}

/// The time of a question that fails counts as well: a controller that is down is not asked by all.
void SlurmQueue::AskIfOlder(Duration age) const {
  const UniqueFd lock(::open(LockPath().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return;
  }
  char last[32] = {};
  const ssize_t n = ::pread(lock.get(), last, sizeof(last) - 1, 0);
  const std::optional<int64_t> asked = n > 0 ? TimeOf(last) : std::nullopt;
  const int64_t now = NanosNow();
  if (asked && now - *asked < std::chrono::nanoseconds(age).count()) {
    return;
  }
  const std::string begin = fmt::format("{}\n", now);
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::pwrite(lock.get(), begin.data(), begin.size(), 0) != static_cast<ssize_t>(begin.size())) {
    return;
  }
  const Result<std::string> answer =
      RunCommand({"squeue", "--me", "--noheader", "--format=%F %T"}, "", answer_limit_);
  if (answer.ok()) {
    WriteFileAtomically(AnswerPath(), begin + *answer, 0600)
        .Ignore("the jobs are of unknown state until it can be written");
  }
}

std::map<std::string, std::string, std::less<>> ParseSlurmQueue(std::string_view text) {
  std::map<std::string, std::string, std::less<>> states;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t blank = line.find(' ');
    if (blank != std::string_view::npos && blank > 0) {
      const std::string_view state = line.substr(blank + 1);
      states.insert_or_assign(
          std::string(line.substr(0, blank)),
          std::string(state.substr(0, state.find_last_not_of(' ') + 1)));
    }
  }
  return states;
}

}  // namespace ps::provisioner
